/** How an authentication ended for the page. The result itself is for the back end alone. */
export type Status =
  | 'completed' | 'failed' | 'cancelled' | 'expired'
  | 'decoupled' | 'pending' | 'elsewhere' | 'unreachable'

export type Step = 'begin' | 'method' | 'authentication' | 'challenge' | 'result' | 'end'

export interface Options {
  /** `browser.url` of the authentication object. */
  url: string
  /** Where the challenge is shown. Without it, a modal dialog opens. */
  container?: Element | null
  /** Size of the challenge: 250 × 400, 390 × 400, 500 × 600, 600 × 400, or the full screen. */
  size?: '01' | '02' | '03' | '04' | '05'
  /** Language of the texts, such as `de`. The default is that of the browser. */
  locale?: string
  /** Aborting is the same as when the shopper cancels. */
  signal?: AbortSignal | null
  /** Called at most once per step, in order. */
  onStep?: (step: Step) => void
}

export interface End {
  /** The id of the authentication, for `GET /authentications/ID`. */
  readonly id: string
  readonly status: Status
}

/** Takes one authentication to its end. Rejects only with a TypeError for a bad argument. */
export function authenticate(options: Options): Promise<End>

export const version: string
