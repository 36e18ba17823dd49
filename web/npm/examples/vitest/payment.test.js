// A payment of each outcome, against a sandbox that runs while these tests do.

import { Client } from "@openthreeds/node";
import { startSandbox } from "@openthreeds/threeds/testing";
import { afterAll, beforeAll, expect, test } from "vitest";

let sandbox, client;

beforeAll(async () => {
  sandbox = await startSandbox();
  client = new Client(sandbox);
});

afterAll(() => sandbox?.stop());

test.each([
  ["4000000000000103", "authenticated", "authorise"],
  ["4000000000000113", "not_authenticated", "do_not_authorise"],
  ["9000100111111111", "not_enrolled", "authorise_without_authentication"],
])("a renewal with the card %s is %s: %s", async (acctNumber, result, action) => {
  const { outcome } = await client.authenticate({
    deviceChannel: "03", threeRIInd: "09", acctNumber, cardExpiryDate: "3012", purchaseAmount: 1099, purchaseCurrency: "EUR",
  });
  expect([outcome.result, outcome.next.action]).toEqual([result, action]);
});
