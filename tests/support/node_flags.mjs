/** Flags of Node for tests: Node 18 (Debian 12's) has some globals of browsers and of later versions behind them. */
export const NODE_FLAGS = Number(process.versions.node.split('.')[0]) < 20 ? ['--experimental-global-webcrypto', '--experimental-global-customevent'] : [];
