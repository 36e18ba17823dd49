// Runs against a server with the sandbox behind it, which THREEDS_URL, THREEDS_KEY and THREEDS_OTHER_KEY name.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import { answerOf, Client, Erro, Problem, RefusedError, verifyWebhook } from "../index.js";

const { THREEDS_URL: url, THREEDS_KEY: apiKey, THREEDS_OTHER_KEY: otherKey } = process.env;
const client = url && new Client({ url, apiKey });
const live = { skip: !url && "THREEDS_URL names no server" };

function areq(threeDSServerTransID, acctNumber) {
  return {
    messageType: "AReq", messageVersion: "2.2.0", deviceChannel: "02", messageCategory: "01", threeDSServerTransID,
    threeDSCompInd: "U", acctNumber, cardExpiryDate: "3012", threeDSRequestorAuthenticationInd: "01",
    threeDSRequestorURL: "https://shop.example", acquirerBIN: "400000", acquirerMerchantID: "M1", mcc: "5411",
    merchantCountryCode: "826", merchantName: "Shop", purchaseAmount: "1099", purchaseCurrency: "826", purchaseExponent: "2",
    purchaseDate: "20261120120000", browserAcceptHeader: "text/html", browserIP: "192.0.2.1", browserJavaEnabled: false,
    browserJavascriptEnabled: true, browserLanguage: "en", browserColorDepth: "24", browserScreenHeight: "1080",
    browserScreenWidth: "1920", browserTZ: "0", browserUserAgent: "Mozilla/5.0", notificationURL: "https://shop.example/done",
    cardholderName: "Ann Example",
  };
}

async function authenticate(card) {
  const { threeDSServerTransID } = await client.preauth({ acctNumber: card });
  return client.auth(areq(threeDSServerTransID, card));
}

test("a payment of the compatible API, and its outcome in words", live, async () => {
  for (const [card, transStatus, result, action] of [
    ["4000000000000103", "Y", "authenticated", "authorise"],
    ["4000000000000113", "N", "not_authenticated", "do_not_authorise"],
    ["4000000000000153", "U", "unavailable", "authorise_without_authentication"],
  ]) {
    const ares = await authenticate(card);
    assert.equal(ares.transStatus, transStatus);
    const end = await client.authentication(ares.threeDSServerTransID, { wait: 1 });
    assert.deepEqual([end.status, end.outcome.result, end.outcome.next.action], ["completed", result, action]);
    assert.deepEqual(await client.outcome(ares.threeDSServerTransID), end);
    assert.equal(answerOf(end).status, 200);
  }
});

test("a card can be looked up, and a request explained, before anything is sent", live, async () => {
  const card = await client.lookup("4000970000000103");
  assert.deepEqual(card.schemes.map(({ scheme }) => scheme), ["visa", "cb"]);
  const explained = await client.explain({ ...areq(undefined, "4000000000000103"), purchaseAmount: "ten" });
  assert.equal(explained.verdict, "invalid");
  assert.ok(explained.errors.some(({ pointer, cure }) => pointer === "/purchaseAmount" && cure));
});

test("what is refused says why", live, async () => {
  await assert.rejects(client.preauth({ acctNumber: "9000100111111111" }), (err) => err instanceof Erro && err.isNotEnrolled);
  await assert.rejects(client.auth({}), (err) => err instanceof Erro && err.errorComponent === "S");
  await assert.rejects(client.authentication("00000000-0000-4000-8000-000000000000"),
    (err) => err instanceof Problem && err.status === 404 && err.type === "urn:threeds:problem:not-found");
  const ares = await authenticate("4000000000000103");
  const other = new Client({ url, apiKey: otherKey });
  await assert.rejects(other.outcome(ares.threeDSServerTransID), (err) => err instanceof Problem && err.status === 404);
  const stranger = new Client({ url, apiKey: "00000000-0000-4000-8000-000000000000" });
  await assert.rejects(stranger.preauth({ acctNumber: "4000000000000103" }), (err) => err instanceof RefusedError && err.status === 401);
});

test("F3 a payment without a browser has its outcome at once, and F5 the same key gives the same answer", live, async () => {
  for (const [card, result, action] of [
    ["4000000000000103", "authenticated", "authorise"],
    ["4000000000000113", "not_authenticated", "do_not_authorise"],
    ["9000100111111111", "not_enrolled", "authorise_without_authentication"],
  ]) {
    const payment = {
      deviceChannel: "03", threeRIInd: "09", acctNumber: card, cardExpiryDate: "3012", purchaseAmount: 1099, purchaseCurrency: "EUR",
      reference: "order-17",
    };
    const first = await client.authenticate(payment, { idempotencyKey: card });
    assert.deepEqual([first.outcome.result, first.outcome.next.action, first.reference], [result, action, "order-17"]);
    assert.equal(answerOf(first).status, 201);
    const again = await client.authenticate(payment, { idempotencyKey: card });
    assert.deepEqual(again, first);
    assert.equal(answerOf(again).headers.get("idempotency-replayed"), "true");
    await assert.rejects(client.cancel(first.id), (err) => err instanceof Problem && err.status === 409);
  }
  await assert.rejects(client.authenticate({ deviceChannel: "03" }),
    (err) => err instanceof Problem && err.status === 400 && err.errors.length > 2 && err.errors.every(({ cure }) => cure));
});

test("W1 a delivery of the server is good", live, async () => {
  const { promise, resolve } = Promise.withResolvers?.() ?? deferred();
  const server = createServer(async (req, res) => {
    const parts = [];
    for await (const part of req) parts.push(part);
    res.writeHead(204).end();
    resolve([req.headers, Buffer.concat(parts)]);
  }).listen(0, "127.0.0.1");
  await new Promise((listening) => server.once("listening", listening));
  try {
    const made = await fetch(`${url}/webhook-endpoints`, {
      method: "POST", headers: { APIKey: apiKey, "Content-Type": "application/json" },
      body: JSON.stringify({ url: `http://127.0.0.1:${server.address().port}/hooks` }),
    });
    const { secret } = await made.json();
    const ares = await authenticate("4000000000000103");
    const [headers, body] = await promise;
    const event = verifyWebhook(secret, headers, body);
    assert.equal(event.type, "authentication.completed");
    assert.equal(event.id, headers["webhook-id"]);
    assert.equal(event.data.id, ares.threeDSServerTransID);
    assert.equal(event.data.outcome.next.action, "authorise");
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

function deferred() {
  let resolve;
  const promise = new Promise((settle) => (resolve = settle));
  return { promise, resolve };
}
