// Checks messages in a browser. Node has check-node.js.

import { makeChecker } from "./checker.js";

export const { check, explain } = makeChecker(async () => {
  const answer = await fetch(new URL("./checker.wasm", import.meta.url));
  if (!answer.ok) throw new Error(`the checker of messages cannot be loaded: status ${answer.status}`);
  return answer.arrayBuffer();
});
