// Starts the sandbox for a test, and stops it.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { findBinary } from "./binary.js";

const maxErrors = 16 << 10; // characters that are kept of standard error

/** Starts a server, its directory servers, issuers and the demo shop in a process of their own, on free ports. */
export async function startSandbox({ args = [], log, signal } = {}) {
  signal?.throwIfAborted();
  const dir = await mkdtemp(join(tmpdir(), "threeds-ready-"));
  try {
    return await start(join(dir, "ready.json"), args, log, signal);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

async function start(readyFile, args, log, signal) {
  const program = spawn(
    findBinary(),
    ["sandbox", "--listen", "127.0.0.1:0", "--until-stdin-ends", "--ready-file", readyFile, ...(log ? [] : ["--quiet"]), ...args],
    { stdio: ["pipe", "pipe", "pipe"] },
  );
  program.stdin.on("error", () => {}); // The program may end before its standard input does.
  const ended = new Promise((resolve, reject) => {
    program.on("error", reject);
    program.on("close", (status, by) => resolve(by ?? `exit status ${status}`));
  });
  ended.catch(() => {}); // Whoever waits for it hears of a failure.
  let errors = "";
  program.stderr.setEncoding("utf8").on("data", (text) => {
    errors = (errors + text).slice(-maxErrors);
    log?.(text);
  });
  const handles = [program, program.stdin, program.stdout, program.stderr];
  const stop = async () => {
    // It has ended when its outputs have, too: until then each of them keeps this process alive.
    for (const handle of handles) handle.ref();
    program.stdin.end();
    await ended;
  };
  const abort = () => program.stdin.end();
  signal?.addEventListener("abort", abort, { once: true });
  try {
    // The ready file is complete before the first line on standard output.
    const by = await Promise.race([once(program.stdout, "data").then(() => undefined), ended]);
    signal?.throwIfAborted();
    if (by !== undefined) throw new Error(`threeds sandbox has ended before it was ready (${by}):\n${errors}`);
    const ready = JSON.parse(await readFile(readyFile, "utf8"));
    program.stdout.resume();
    // A sandbox that is not stopped does not keep this process alive. Its standard input ends with this process.
    for (const handle of handles) handle.unref();
    const { api, apiKey, otherApiKey, shop, console, control, ca, results, acs, directories, ds } = ready;
    const sandbox = { url: api, apiKey, otherApiKey, shop, console, control, ca, results, acs, directories, ds, stop };
    if (Symbol.asyncDispose) sandbox[Symbol.asyncDispose] = stop;
    return sandbox;
  } catch (err) {
    await stop();
    throw err;
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}
