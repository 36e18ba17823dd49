/** collectData returns the members of the AReq that only the page can tell, as the browser has them. */
export function collectData(size) {
  const data = {
    browserJavaEnabled: String(!!navigator.javaEnabled?.()),
    browserLanguage: navigator.language ?? '',
    browserColorDepth: String(screen.colorDepth),
    browserScreenHeight: String(screen.height),
    browserScreenWidth: String(screen.width),
    browserTZ: String(new Date().getTimezoneOffset()),
    challengeWindowSize: size
  }
  return data
}
