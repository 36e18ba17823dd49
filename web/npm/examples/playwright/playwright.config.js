import { defineConfig } from "@playwright/test";

// CHROMIUM names a browser that is installed, in the place of Playwright's own.
export default defineConfig({
  use: { launchOptions: { executablePath: process.env.CHROMIUM, args: process.env.CHROMIUM ? ["--no-sandbox"] : [] } },
});
