// Client of threeds, an EMV 3-D Secure server. It has no dependencies and never sends a request twice.

import { createHmac, timingSafeEqual } from "node:crypto";

const shortTimeout = 15_000; // ms, of operations that the server answers by itself
const longTimeout = 35_000; // of those that wait for a directory server
const maxAnswer = 1 << 20; // bytes

/** The HTTP responses that messages were read from. */
const answers = new WeakMap();

/** Returns the HTTP response that a message was read from: status, headers and raw text. */
export function answerOf(message) {
  return answers.get(message);
}

/** Calls the API of one server with one API key. */
export class Client {
  #url;
  #apiKey;
  #fetch;

  constructor({ url, apiKey, fetch = globalThis.fetch }) {
    if (typeof url !== "string" || !/^https?:\/\//.test(url)) throw new TypeError("url must be the http or https URL of the server");
    if (typeof apiKey !== "string" || apiKey === "") throw new TypeError("apiKey must be the API key of the merchant");
    this.#url = url.replace(/\/+$/, "");
    this.#apiKey = apiKey;
    this.#fetch = fetch;
  }

  /** Begins an authentication: POST /authentications. */
  authenticate(payment, { idempotencyKey, signal } = {}) {
    return this.#ask("POST", "/authentications", payment, { idempotencyKey, signal, timeout: longTimeout });
  }

  /** Fetches an authentication. With wait, up to 60 seconds, it answers as soon as the status is final. */
  authentication(id, { wait = 0, signal } = {}) {
    const query = wait > 0 ? `?wait=${wait}` : "";
    return this.#ask("GET", `/authentications/${encodeURIComponent(id)}${query}`, undefined, { signal, timeout: shortTimeout + wait * 1000 });
  }

  /** Ends an authentication that is not final. */
  cancel(id, { idempotencyKey, signal } = {}) {
    return this.#ask("POST", `/authentications/${encodeURIComponent(id)}/cancel`, {}, { idempotencyKey, signal });
  }

  /** Finds authentications, the newest first, also by acctNumber: POST /authentications/search. */
  search(query, { signal } = {}) {
    return this.#ask("POST", "/authentications/search", query, { signal });
  }

  /** Fetches the authentication that an auth has begun, with its outcome once there is one. */
  outcome(threeDSServerTransID, { signal } = {}) {
    return this.#ask("POST", "/outcome", { threeDSServerTransID }, { signal });
  }

  /** Tells which schemes hold a card, and with which versions it can be used. Nothing is sent to a directory. */
  lookup(acctNumber, { signal } = {}) {
    return this.#ask("POST", "/lookup", { acctNumber }, { signal });
  }

  /** Tells what the server would make of a body, and sends nothing. */
  explain(body, { signal } = {}) {
    return this.#ask("POST", "/explain", body, { signal });
  }

  /** Looks a card up for the compatible API. */
  preauth(request, { signal } = {}) {
    return this.#exchange("/preauth", request, "CRD", { signal });
  }

  /** Sends an AReq and returns the ARes as the issuer made it. */
  auth(areq, { signal } = {}) {
    return this.#exchange("/auth", areq, "ARes", { signal, timeout: longTimeout });
  }

  /** Fetches the result of a challenge. While there is none yet, it throws an Erro whose isPending is true. */
  postauth(threeDSServerTransID, { signal } = {}) {
    return this.#exchange("/postauth", { threeDSServerTransID }, "RReq", { signal });
  }

  /** Calls an operation that answers with an object, or with problem+json. */
  async #ask(method, path, body, options) {
    const answer = await this.#send(method, path, body, options);
    const value = parseObject(answer.raw);
    if (value && answer.headers.get("content-type") === "application/problem+json") throw new Problem(answer, value);
    if (!value || answer.status < 200 || answer.status > 299) throw new RefusedError(answer);
    answers.set(value, answer);
    return value;
  }

  /** Calls an operation that answers with a message of EMV 3-D Secure. */
  async #exchange(path, body, want, options) {
    const answer = await this.#send("POST", path, body, options);
    const value = parseObject(answer.raw);
    if (value?.messageType === "Erro") throw new Erro(answer, value);
    if (value?.messageType !== want || answer.status !== 200) throw new RefusedError(answer);
    answers.set(value, answer);
    return value;
  }

  async #send(method, path, body, { idempotencyKey, signal, timeout = shortTimeout } = {}) {
    const headers = { APIKey: this.#apiKey };
    if (body !== undefined) headers["Content-Type"] = "application/json; charset=utf-8";
    if (idempotencyKey !== undefined) headers["Idempotency-Key"] = idempotencyKey;
    const limit = AbortSignal.timeout(timeout);
    const response = await this.#fetch(this.#url + path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      redirect: "manual", // a redirect would carry the API key to another address
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
    return { operation: path.split("?")[0], status: response.status, headers: response.headers, raw: await readText(response) };
  }
}

async function readText(response) {
  const parts = [];
  let size = 0;
  for await (const part of response.body ?? []) {
    size += part.length;
    if (size > maxAnswer) throw new Error(`the answer is longer than ${maxAnswer} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}

function parseObject(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The server has answered, but not with what was asked for. */
export class AnswerError extends Error {
  constructor(answer, message) {
    super(`${answer.operation}: ${message}`);
    this.name = new.target.name;
    this.operation = answer.operation;
    this.status = answer.status;
    this.headers = answer.headers;
    Object.defineProperty(this, "raw", { value: answer.raw }); // kept out of logs of the error
  }

  /** How many seconds the server asks to wait before the next request; 0 if it does not ask. */
  get retryAfter() {
    const seconds = Number(this.headers.get("retry-after"));
    return Number.isInteger(seconds) && seconds > 0 ? seconds : 0;
  }
}

/** An error of the operations that answer with problem+json (RFC 9457). */
export class Problem extends AnswerError {
  constructor(answer, body) {
    const faults = Array.isArray(body.errors) ? body.errors : [];
    const named = faults.map((f) => `${f.pointer ?? f.parameter ?? f.header ?? ""} ${f.rule}: ${f.cure}`).join("; ");
    super(answer, [body.title, body.detail, named].filter(Boolean).join(": "));
    this.type = body.type;
    this.title = body.title;
    this.detail = body.detail;
    this.errors = faults;
  }
}

/** The message with which the server, or a directory server behind it, refuses a message. */
export class Erro extends AnswerError {
  constructor(answer, body) {
    super(answer, `Erro ${body.errorCode} of ${body.errorComponent}: ${body.errorDescription}: ${body.errorDetail}`);
    this.errorCode = body.errorCode;
    this.errorComponent = body.errorComponent;
    this.errorDescription = body.errorDescription;
    this.errorDetail = body.errorDetail;
    this.errorMessageType = body.errorMessageType;
    this.messageVersion = body.messageVersion;
    this.threeDSServerTransID = body.threeDSServerTransID;
  }

  /** Of preauth: no directory server has the card. */
  get isNotEnrolled() {
    return this.operation === "/preauth" && this.errorCode === "305";
  }

  /** Of postauth: there is no result at the moment. Ask again in a second, or after retryAfter. */
  get isPending() {
    return this.operation === "/postauth" && this.errorComponent === "S" && ["103", "305", "403"].includes(this.errorCode);
  }
}

/** An answer that is neither what was asked for nor an error of the API: a wrong API key (401), or a page of a proxy. */
export class RefusedError extends AnswerError {
  constructor(answer) {
    super(answer, answer.status === 401 ? "status 401: the server does not know the API key"
      : `status ${answer.status}: the answer is not one of the API`);
  }
}

/** A delivery that is not to be believed. */
export class WebhookError extends Error {
  constructor(message) {
    super(message);
    this.name = "WebhookError";
  }
}

/**
 * Verifies a delivery as Standard Webhooks has it, and returns the event. The body is what came, byte for byte: verify
 * it before any parser has touched it.
 */
export function verifyWebhook(secret, headers, body, { now = Date.now(), tolerance = 300 } = {}) {
  const header = (name) => (typeof headers.get === "function" ? headers.get(name) : headerIn(headers, name)) ?? "";
  const id = header("webhook-id");
  const timestamp = header("webhook-timestamp");
  if (!/^\d+$/.test(timestamp) || Math.abs(now / 1000 - Number(timestamp)) > tolerance) {
    throw new WebhookError(`the timestamp is not within ${tolerance} seconds of now`);
  }
  const signed = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), Buffer.from(body)]);
  const right = [secret].flat().map((text) => createHmac("sha256", keyOf(text)).update(signed).digest());
  const isGood = header("webhook-signature").split(" ").some((word) => {
    if (!word.startsWith("v1,")) return false;
    const given = Buffer.from(word.slice(3), "base64");
    return right.some((digest) => given.length === digest.length && timingSafeEqual(given, digest));
  });
  if (!isGood) throw new WebhookError("no signature fits");
  return JSON.parse(Buffer.from(body).toString("utf8"));
}

function keyOf(secret) {
  const [, encoded] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret) ?? [];
  const key = Buffer.from(encoded ?? "", "base64");
  if (key.length < 24 || key.length > 64) throw new TypeError('a secret is "whsec_" and base64 of 24 to 64 bytes');
  return key;
}

function headerIn(headers, name) {
  for (const [key, value] of Object.entries(headers)) {
    if (key.toLowerCase() === name) return Array.isArray(value) ? value[0] : value;
  }
  return undefined;
}
