// Starts the checker of messages: `threeds check` and `threeds explain` as WebAssembly.

/**
 * Returns the functions that judge a text. read returns the bytes of the program, which is loaded by the first call.
 * A program that could not be loaded is loaded again by the next call.
 */
export function makeChecker(read) {
  let loading;
  const judge = async (command, text, { scheme = "", now = new Date() } = {}) => {
    if (typeof text !== "string") throw new TypeError(`${command}: want a text, not ${typeof text}`);
    loading ??= load(read);
    try {
      return (await loading)(command, text, scheme, now.getTime());
    } catch (err) {
      loading = undefined;
      throw err;
    }
  };
  return {
    check: (text, options) => judge("check", text, options),
    explain: (text, options) => judge("explain", text, options),
  };
}

async function load(read) {
  const program = await read();
  await import("./wasm_exec.js"); // sets globalThis.Go
  const go = new globalThis.Go();
  const { instance } = await WebAssembly.instantiate(program, go.importObject);
  go.run(instance); // It does not end, and keeps no process alive.
  return globalThis.threedsChecker;
}
