/** Options of a call. */
export interface CallOptions {
  signal?: AbortSignal;
}

/** Options of a call that changes something. */
export interface ChangeOptions extends CallOptions {
  /**
   * 1 to 255 printable ASCII characters, such as the number of the order. Within 24 hours the same key with the same
   * body gives the same answer and causes nothing again.
   */
  idempotencyKey?: string;
}

export interface ClientOptions {
  /** The URL of the server, such as https://3ds.example. */
  url: string;
  apiKey: string;
  fetch?: typeof globalThis.fetch;
}

/** The HTTP response that a message was read from. */
export interface Answer {
  operation: string;
  status: number;
  headers: Headers;
  raw: string;
}

/** A payment to authenticate. Four members are enough; the others have the names of EMV 3-D Secure. */
export interface Payment {
  acctNumber: string;
  cardExpiryDate: string;
  purchaseAmount: string | number;
  purchaseCurrency: string | number;
  reference?: string;
  returnUrl?: string;
  ds?: string;
  messageVersion?: string;
  [element: string]: unknown;
}

export type Status =
  | "requires_browser" | "in_progress" | "challenge" | "decoupled" | "completed" | "failed" | "cancelled" | "expired";

export type Result =
  | "authenticated" | "attempted" | "informational" | "data_only" | "not_authenticated" | "rejected" | "unavailable"
  | "not_enrolled" | "abandoned" | "bank_unreachable" | "error";

export type Action =
  | "authorise" | "authorise_without_authentication" | "do_not_authorise" | "retry_with_challenge" | "retry_later"
  | "ask_for_another_card" | "keep_for_later";

/** One run of 3-D Secure. */
export interface Authentication {
  id: string;
  status: Status;
  reference: string | null;
  created: string;
  /** What is bought, as the AReq says it; null without a payment. */
  amount: { value: string; currency: string; exponent: string | null } | null;
  merchant: { name: string; acquirerMerchantID: string | null };
  card: { last4: string; scheme: string | null; schemes?: string[] };
  messageVersion: string | null;
  /** What the page needs; url and token are in the answer of authenticate only. */
  browser?: { url?: string; token?: string; script: string; integrity: string; expires: string };
  /** What the SDK of an app needs for a challenge. */
  challenge?: Record<string, unknown>;
  /** The first result that came and was not valid; null if there was none. */
  resultRefused: { at: string; code: string; description: string; detail: string } | null;
  /** null before the end. */
  outcome: Outcome | null;
  normalised?: unknown[];
  defaulted?: string[];
  schemeFindings: SchemeFinding[];
  ares?: Record<string, unknown> | null;
  rreq?: Record<string, unknown> | null;
}

/** How an authentication ended, who is liable, and what to do next. */
export interface Outcome {
  result: Result;
  transStatus: string | null;
  transStatusReason: string | null;
  reason: string | null;
  challenged: boolean;
  /** The values that belong into the authorisation of the payment; null when there are none. */
  authorisation: Authorisation | null;
  liability: { shifts: "yes" | "no" | "unknown"; because: string; source: string | null };
  next: { action: Action; because: string };
  /** The Erro with which it failed; null if there was none. */
  error: { component: "C" | "S" | "D" | "A"; code: string; description: string; detail: string } | null;
  cardholderInfo: string | null;
}

export interface Authorisation {
  eci: string | null;
  authenticationValue: string | null;
  dsTransID: string | null;
  messageVersion: string | null;
  threeDSServerTransID: string | null;
  acsTransID: string | null;
  expired: boolean;
}

export interface Query {
  acctNumber?: string;
  reference?: string;
  last4?: string;
  scheme?: string;
  status?: Status;
  result?: Result;
  from?: string;
  to?: string;
  limit?: number;
  cursor?: string;
}

export interface Page {
  data: Authentication[];
  next: string | null;
}

export interface CardLookup {
  last4: string;
  schemes: {
    scheme: string;
    versions: { messageVersion: string; threeDSMethodURL?: string; acsInfoInd: { code: string; meaning: string }[] }[];
    recommended: { messageVersion: string; because: string } | null;
    requires: { element: string; level: string; since: string | null; source: string }[];
    knownSince: string | null;
  }[];
}

export interface Explanation {
  verdict: "valid" | "invalid";
  errors: Fault[];
  warnings: unknown[];
  normalised: unknown[];
  schemeFindings: SchemeFinding[];
  wouldSend: Record<string, unknown> | null;
  [member: string]: unknown;
}

/** A rule of the card's scheme that the request does not keep. */
export interface SchemeFinding {
  element: string;
  level: "required" | "advised" | "ignored" | "forbidden";
  since: string | null;
  until: string | null;
  inForce: boolean;
  text: string;
  source: string | null;
}

/** One fault of a request. */
export interface Fault {
  pointer?: string;
  parameter?: string;
  header?: string;
  /** Three digits, as in an Erro. */
  code: string;
  rule: string;
  limit?: Record<string, unknown> | null;
  found?: Record<string, unknown> | null;
  cure: string;
  source?: string | null;
}

/** A message of EMV 3-D Secure. */
export interface Message {
  messageType: string;
  messageVersion: string;
  threeDSServerTransID: string;
  [element: string]: unknown;
}

/** Calls the API of one server with one API key. A request is never sent twice. */
export class Client {
  constructor(options: ClientOptions);
  authenticate(payment: Payment, options?: ChangeOptions): Promise<Authentication>;
  authentication(id: string, options?: CallOptions & { wait?: number }): Promise<Authentication>;
  cancel(id: string, options?: ChangeOptions): Promise<Authentication>;
  search(query: Query, options?: CallOptions): Promise<Page>;
  outcome(threeDSServerTransID: string, options?: CallOptions): Promise<Authentication>;
  lookup(acctNumber: string, options?: CallOptions): Promise<CardLookup>;
  explain(body: Record<string, unknown>, options?: CallOptions): Promise<Explanation>;
  preauth(request: { acctNumber: string; ds?: string }, options?: CallOptions): Promise<Message>;
  auth(areq: Record<string, unknown>, options?: CallOptions): Promise<Message>;
  postauth(threeDSServerTransID: string, options?: CallOptions): Promise<Message>;
}

/** Returns the HTTP response that a message was read from. */
export function answerOf(message: object): Answer | undefined;

/** The server has answered, but not with what was asked for. Every other error means that no answer came. */
export class AnswerError extends Error {
  readonly operation: string;
  readonly status: number;
  readonly headers: Headers;
  readonly raw: string;
  /** Seconds to wait before the next request; 0 if the server does not ask for it. */
  get retryAfter(): number;
}

/** An error of the operations that answer with problem+json. */
export class Problem extends AnswerError {
  /** Such as urn:threeds:problem:not-found. */
  readonly type: string;
  readonly title: string;
  readonly detail: string;
  readonly errors: Fault[];
}

/** The message with which the server, or a directory server behind it, refuses a message. */
export class Erro extends AnswerError {
  readonly errorCode: string;
  readonly errorComponent: string;
  readonly errorDescription: string;
  readonly errorDetail: string;
  readonly errorMessageType?: string;
  readonly messageVersion?: string;
  readonly threeDSServerTransID?: string;
  get isNotEnrolled(): boolean;
  get isPending(): boolean;
}

/** An answer that is neither what was asked for nor an error of the API, such as that to a wrong API key. */
export class RefusedError extends AnswerError {}

/** A delivery that is not to be believed. */
export class WebhookError extends Error {}

/** What a delivery says. data is the authentication without browser, ares, rreq and the authentication value. */
export interface WebhookEvent<Data = Authentication> {
  id: string;
  type:
    | "authentication.completed" | "authentication.failed" | "authentication.expired" | "authentication.cancelled"
    | "webhook.test" | "ranges.stale" | "certificate.expiring" | "webhook.disabled";
  timestamp: string;
  data: Data;
}

/**
 * Verifies a delivery as Standard Webhooks has it, and returns the event. The body is what came, byte for byte. Several
 * secrets are for a rotation. It throws a WebhookError for a delivery that is not to be believed.
 */
export function verifyWebhook<Data = Authentication>(
  secret: string | string[],
  headers: { get(name: string): string | null } | Record<string, string | string[] | undefined>,
  body: string | Uint8Array,
  options?: { now?: number; tolerance?: number },
): WebhookEvent<Data>;
