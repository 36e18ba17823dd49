// Finds the program threeds, which a package of its own holds for each platform.

import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const { optionalDependencies = {} } = require("./package.json");

/**
 * Returns the path of the program. The environment variable THREEDS_BINARY wins over the package of the platform.
 * It throws an error that says what to do when there is no program.
 */
export function findBinary({ platform = process.platform, arch = process.arch } = {}) {
  if (process.env.THREEDS_BINARY) return process.env.THREEDS_BINARY;
  const name = `@openthreeds/threeds-${platform}-${arch}`;
  const packages = Object.keys(optionalDependencies);
  if (!packages.includes(name)) {
    throw new Error(
      `@openthreeds/threeds has no program for ${platform} ${arch}. It has these packages: ${packages.join(", ") || "none"}. ` +
        "Build threeds from its source and name the file in the environment variable THREEDS_BINARY.",
    );
  }
  try {
    return require.resolve(`${name}/bin/threeds${platform === "win32" ? ".exe" : ""}`);
  } catch (cause) {
    throw new Error(
      `The package ${name} is missing, which holds the program for this platform. Install it with @openthreeds/threeds: ` +
        "do not leave optional dependencies out (--omit=optional, --no-optional), and do not copy node_modules from a " +
        "machine of another kind.",
      { cause },
    );
  }
}
