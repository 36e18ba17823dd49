#!/usr/bin/env node
// Runs the program threeds with the same arguments, streams and exit status.

import { spawn } from "node:child_process";
import { constants } from "node:os";

import { findBinary } from "../binary.js";

let binary;
try {
  binary = findBinary();
} catch (err) {
  console.error(`threeds: ${err.message}`);
  process.exit(1);
}
const program = spawn(binary, process.argv.slice(2), { stdio: "inherit" });

// Ctrl-C reaches the program by itself, and a second SIGINT would end it before it has stopped in good order.
const hasTerminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
process.on("SIGINT", () => hasTerminal || program.kill("SIGINT"));
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => program.kill(signal));

program.on("error", (err) => {
  console.error(`threeds: ${binary} does not start: ${err.message}`);
  process.exit(1);
});
program.on("exit", (status, signal) => process.exit(status ?? 128 + constants.signals[signal]));
