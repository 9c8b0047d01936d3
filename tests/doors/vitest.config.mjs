// By itself vitest does not find the kit's file, nor do our own runner's files concern it.
export default { test: { include: ['*.kit.mjs'] } };
