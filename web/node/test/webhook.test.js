import assert from "node:assert/strict";
import { test } from "node:test";

import { verifyWebhook, WebhookError } from "../index.js";

// The example that the libraries of Standard Webhooks share.
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const body = '{"test": 2432232314}';
const headers = {
  "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
  "webhook-timestamp": "1614265330",
  "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
};
const now = 1614265330_000;

test("W1 the reference vector is good, in each form of headers and body", () => {
  for (const given of [headers, new Headers(headers), { "Webhook-Id": headers["webhook-id"], ...headers }]) {
    for (const bytes of [body, Buffer.from(body), new TextEncoder().encode(body)]) {
      assert.deepEqual(verifyWebhook(secret, given, bytes, { now }), { test: 2432232314 });
    }
  }
});

test("W1 during a rotation either secret and either signature is enough", () => {
  const other = `whsec_${Buffer.alloc(32).toString("base64")}`;
  verifyWebhook([other, secret], headers, body, { now });
  verifyWebhook(secret, { ...headers, "webhook-signature": `v1,AAAA v2,x ${headers["webhook-signature"]}` }, body, { now });
});

test("W1 what was changed, is old or has another secret is refused", () => {
  for (const [change, given = body, at = now] of [
    [{}, body + " "],
    [{ "webhook-id": "msg_1" }],
    [{ "webhook-timestamp": "1614265331" }],
    [{ "webhook-timestamp": "soon" }],
    [{ "webhook-timestamp": undefined }],
    [{ "webhook-signature": "" }],
    [{ "webhook-signature": headers["webhook-signature"].slice(3) }],
    [{ "webhook-signature": "v1," }],
    [{}, body, now + 301_000],
    [{}, body, now - 301_000],
  ]) {
    assert.throws(() => verifyWebhook(secret, { ...headers, ...change }, given, { now: at }), WebhookError);
  }
  assert.throws(() => verifyWebhook(`whsec_${Buffer.alloc(32).toString("base64")}`, headers, body, { now }), WebhookError);
});

test("a secret that is none is a mistake of the program, and is not quoted", () => {
  for (const bad of ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=", "whsec_%%%"]) {
    assert.throws(() => verifyWebhook(bad, headers, body, { now }), (err) => err instanceof TypeError && (bad === "" || !err.message.includes(bad)));
  }
});
