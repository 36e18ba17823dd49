/** How a text is judged. */
export interface CheckOptions {
  /** The card scheme whose rules count as well, such as `"visa"`. Without it none does, or that of the request. */
  scheme?: string;
  /** The time of the judgement. Default: now. */
  now?: Date;
}

/** What `threeds check` or `threeds explain` says of a text. */
export interface Verdict {
  /** The exit status of the command: 0 if nothing is wrong, 1 if the text has faults, 2 if it cannot be judged. */
  readonly status: 0 | 1 | 2;
  /** How many faults there are, or why the text cannot be judged. `""` if nothing is wrong. */
  readonly summary: string;
  /** A line for each fault and each remark. */
  readonly findings: readonly string[];
  /** What the command writes to standard output: the message, masked, or the AReq that `/auth` would send. */
  readonly stdout: string;
  /** What it writes to standard error. It calls the text `text`. */
  readonly stderr: string;
}

/**
 * Says what is wrong with a message of EMV 3DS, a form, a PARes or a line of a log, as `threeds check` does. The first
 * call loads the program, 7.7 MB. The text stays in this process.
 *
 * It throws if the program cannot be loaded, and not because of the text.
 */
export function check(text: string, options?: CheckOptions): Promise<Verdict>;

/** Says what `/auth` would make of a request, as `threeds explain` does. It knows no card ranges. */
export function explain(text: string, options?: CheckOptions): Promise<Verdict>;
