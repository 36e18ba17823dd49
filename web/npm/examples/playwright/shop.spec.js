// A shopper who pays in the demo shop. Your own shop takes its place: give its back end sandbox.url and sandbox.apiKey.

import { test as base } from "@playwright/test";
import { startSandbox } from "@openthreeds/threeds/testing";

const test = base.extend({
  sandbox: [
    async ({}, use) => {
      const sandbox = await startSandbox();
      await use(sandbox);
      await sandbox.stop();
    },
    { scope: "worker" },
  ],
});

test("a payment without a challenge ends at the order", async ({ page, sandbox }) => {
  await page.goto(`${sandbox.shop}/?ends=0103`);
  await page.getByTestId("pay").click();
  await page.waitForURL("**/order?*");
  await page.locator(".order[data-good=true]").waitFor();
});

test("a shopper who types the code of the bank has paid", async ({ page, sandbox }) => {
  await page.goto(`${sandbox.shop}/?ends=0172`);
  await page.getByTestId("pay").click();
  const bank = page.frameLocator("[data-threeds=challenge]").frameLocator("iframe");
  await bank.getByTestId("challenge-code").fill(await bank.getByTestId("hint").locator("b").innerText());
  await bank.getByTestId("challenge-submit").click();
  await page.waitForURL("**/order?*");
  await page.locator(".order[data-good=true]").waitFor();
});
