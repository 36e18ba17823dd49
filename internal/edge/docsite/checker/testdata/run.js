// Runs the checker for the tests: each line of the input is a JSON array of arguments, each line of the output the result.
"use strict"
const [, , start, program] = process.argv
require(start)
const go = new globalThis.Go()
WebAssembly.instantiate(require("node:fs").readFileSync(program), go.importObject).then(({ instance }) => {
  go.run(instance)
  const lines = require("node:readline").createInterface({ input: process.stdin })
  lines.on("line", (line) => console.log(JSON.stringify(globalThis.threedsChecker(...JSON.parse(line)))))
  lines.on("close", () => process.exit(0))
})
