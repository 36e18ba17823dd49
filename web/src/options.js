import frames from '../frames.json'

/** checkOptions returns the arguments of authenticate with their defaults, or throws a TypeError. */
export function checkOptions(options) {
  const o = { ...options }
  let url
  try {
    url = new URL(o.url)
  } catch {
    throw new TypeError('url: want the browser.url of the authentication')
  }
  const match = /^(.*\/a\/)([\w-]{43,128})$/.exec(url.origin + url.pathname)
  if (!match || !/^https?:$/.test(url.protocol)) throw new TypeError('url: want the browser.url of the authentication')
  o.base = match[1]
  o.token = match[2]
  o.id = readID(o.token)
  o.size ??= innerWidth < frames.phone[0] || innerHeight < frames.phone[1] ? '05' : '03'
  if (!Object.hasOwn(frames.sizes, o.size)) throw new TypeError("size: want '01', '02', '03', '04' or '05'")
  if (o.container != null && !(o.container instanceof Element)) throw new TypeError('container: want an element')
  if (o.locale != null && !/^[\w-]{0,35}$/.test(o.locale)) throw new TypeError("locale: want a language such as 'de'")
  if (o.signal != null && !(o.signal instanceof AbortSignal)) throw new TypeError('signal: want an AbortSignal')
  if (o.onStep != null && typeof o.onStep != 'function') throw new TypeError('onStep: want a function')
  return o
}

/** readID returns the id of the authentication that a token is for: its first 16 bytes as a UUID. */
export function readID(token) {
  const bytes = atob(token.slice(0, 22).replace(/-/g, '+').replace(/_/g, '/') + '==')
  const hex = Array.from(bytes, (c) => c.charCodeAt(0).toString(16).padStart(2, '0')).join('')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5')
}
