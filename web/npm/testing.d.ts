/** How a sandbox starts. */
export interface SandboxOptions {
  /** More flags of `threeds sandbox`, such as `["--strict"]`. `threeds help` lists them. */
  args?: string[];
  /** Called with what the sandbox writes to standard error: a line for each request, and warnings. */
  log?: (text: string) => void;
  /** Stops the start. A sandbox that is ready goes on: call `stop`. */
  signal?: AbortSignal;
}

/** A sandbox that runs. It ends with this process at the latest. */
export interface Sandbox {
  /** Base URL of the API. With `apiKey` it is what a client of the API needs. */
  readonly url: string;
  /** API key of a merchant. */
  readonly apiKey: string;
  /** API key of another merchant, who must not see the first one's authentications. */
  readonly otherApiKey: string;
  /** URL of the demo shop. */
  readonly shop: string;
  /** URL of the console, which shows each authentication. It needs no login. */
  readonly console: string;
  /** Base URL of what the directory servers and issuers saw. */
  readonly control: string;
  /** File of the certificate authority that was made for this sandbox. */
  readonly ca: string;
  /** Base URL of the listener for results of directory servers. */
  readonly results: string;
  /** Base URL of the issuers' pages. */
  readonly acs: string;
  /** Base URL of the directory servers, with mutual TLS. */
  readonly directories: string;
  /** URL of the directory server of each scheme. */
  readonly ds: Readonly<Record<string, string>>;
  /** Stops the sandbox, and returns when it has ended. It may be called more than once. */
  stop(): Promise<void>;
  /** Calls `stop` at the end of a block, with `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts a server, its directory servers, issuers and the demo shop in a process of their own, on free ports of the
 * loopback address. It returns as soon as all of them accept connections.
 *
 * It throws if this platform's package is missing, or if the sandbox does not start.
 */
export function startSandbox(options?: SandboxOptions): Promise<Sandbox>;
