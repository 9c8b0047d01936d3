// By itself vitest does not find the kit's file, nor do our own runner's files concern it. A test of the kit makes 100,000
// assertions, which on a busy machine take longer than the five seconds that vitest gives.
export default { test: { include: ['*.kit.mjs'], testTimeout: 60_000 } };
