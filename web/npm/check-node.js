// Checks messages in Node.

import { webcrypto } from "node:crypto";
import { readFile } from "node:fs/promises";

import { makeChecker } from "./checker.js";

export const { check, explain } = makeChecker(() => {
  globalThis.crypto ??= webcrypto; // Node 18 has none.
  return readFile(new URL("./checker.wasm", import.meta.url));
});
