import assert from "node:assert/strict";
import { test } from "node:test";

import { answerOf, Client, Erro, Problem, RefusedError } from "../index.js";

/** A client whose requests a function answers; it notes them. */
function stub(answer) {
  const sent = [];
  const fetch = async (url, init) => {
    sent.push({ url, ...init, body: init.body && JSON.parse(init.body) });
    return answer(url, init);
  };
  return { client: new Client({ url: "https://3ds.example/base/", apiKey: "K", fetch }), sent };
}

const json = (value, status = 200, headers = {}) =>
  new Response(JSON.stringify(value), { status, headers: { "content-type": "application/json", ...headers } });

test("each call has the method, path and body of its operation", async () => {
  const { client, sent } = stub((url) =>
    json(url.endsWith("/preauth") ? { messageType: "CRD" } : url.endsWith("/auth") ? { messageType: "ARes" }
      : url.endsWith("/postauth") ? { messageType: "RReq" } : {}));
  await client.authenticate({ acctNumber: "4000000000000103" }, { idempotencyKey: "order-17" });
  await client.authentication("a/b", { wait: 5 });
  await client.authentication("x");
  await client.cancel("x");
  await client.search({ reference: "order-17" });
  await client.outcome("x");
  await client.lookup("4000000000000103");
  await client.explain({ messageType: "AReq" });
  await client.preauth({ acctNumber: "4000000000000103" });
  await client.auth({ messageType: "AReq" });
  await client.postauth("x");
  assert.deepEqual(sent.map(({ method, url, body }) => [method, url.replace("https://3ds.example/base", ""), body]), [
    ["POST", "/authentications", { acctNumber: "4000000000000103" }],
    ["GET", "/authentications/a%2Fb?wait=5", undefined],
    ["GET", "/authentications/x", undefined],
    ["POST", "/authentications/x/cancel", {}],
    ["POST", "/authentications/search", { reference: "order-17" }],
    ["POST", "/outcome", { threeDSServerTransID: "x" }],
    ["POST", "/lookup", { acctNumber: "4000000000000103" }],
    ["POST", "/explain", { messageType: "AReq" }],
    ["POST", "/preauth", { acctNumber: "4000000000000103" }],
    ["POST", "/auth", { messageType: "AReq" }],
    ["POST", "/postauth", { threeDSServerTransID: "x" }],
  ]);
  assert.ok(sent.every(({ headers, redirect }) => headers.APIKey === "K" && redirect === "manual"));
  assert.deepEqual(sent.map(({ headers }) => headers["Idempotency-Key"]), ["order-17", ...Array(10).fill(undefined)]);
});

test("problem+json is a Problem that says what to do", async () => {
  const problem = {
    type: "urn:threeds:problem:invalid", title: "The request has one fault", status: 400, detail: "",
    errors: [{ pointer: "/acctNumber", code: "203", rule: "length", cure: "Give 13 to 19 digits." }],
  };
  const { client } = stub(() => json(problem, 400, { "content-type": "application/problem+json", "retry-after": "3" }));
  await assert.rejects(client.authenticate({}), (err) => {
    assert.ok(err instanceof Problem);
    assert.deepEqual([err.status, err.type, err.errors[0].rule, err.retryAfter], [400, problem.type, "length", 3]);
    assert.match(err.message, /\/acctNumber length: Give 13 to 19 digits\./);
    return true;
  });
});

test("an Erro says whether it is the end", async () => {
  const erro = { messageType: "Erro", errorCode: "305", errorComponent: "S", errorDescription: "d", errorDetail: "e" };
  const { client } = stub(() => json(erro, 400));
  await assert.rejects(client.postauth("x"), (err) => err instanceof Erro && err.isPending && !err.isNotEnrolled);
  await assert.rejects(client.preauth({}), (err) => err instanceof Erro && !err.isPending && err.isNotEnrolled);
  erro.errorComponent = "D";
  await assert.rejects(client.postauth("x"), (err) => err instanceof Erro && !err.isPending);
});

test("any other answer is refused, and its text is not in the error", async () => {
  for (const [answer, status] of [
    [() => new Response("Invalid API Key secret", { status: 401 }), 401],
    [() => new Response("<html>secret</html>", { status: 502 }), 502],
    [() => new Response(null, { status: 302, headers: { location: "https://secret.example" } }), 302],
    [() => json([1]), 200],
    [() => json({ messageType: "secret" }), 200],
  ]) {
    const { client } = stub(answer);
    await assert.rejects(client.auth({}), (err) => err instanceof RefusedError && err.status === status && !/secret/.test(err.message));
  }
});

test("an answer without end is not read to its end", async () => {
  const endless = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1 << 16)) });
  const { client } = stub(() => new Response(endless));
  await assert.rejects(client.outcome("x"), /longer than/);
});

test("a caller can end a call", async () => {
  const { client } = stub((_, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))));
  await assert.rejects(client.outcome("x", { signal: AbortSignal.timeout(1) }), { name: "TimeoutError" });
});

test("what came with a message is not lost", async () => {
  const { client } = stub(() => json({ messageType: "ARes", transStatus: "Y" }, 200, { "x-normalised": "purchaseCurrency" }));
  const ares = await client.auth({});
  assert.equal(answerOf(ares).headers.get("x-normalised"), "purchaseCurrency");
  assert.deepEqual(Object.keys(ares), ["messageType", "transStatus"]);
});
