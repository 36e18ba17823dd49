const depths = [48, 32, 24, 16, 15, 8, 4, 1]

/** collectData returns the members of the AReq that only the page can tell. */
export function collectData(size) {
  const data = {
    browserJavaEnabled: String(!!navigator.javaEnabled?.()),
    browserLanguage: navigator.language.slice(0, 35),
    browserColorDepth: String(depths.find((d) => d <= screen.colorDepth) ?? 24),
    browserScreenHeight: String(screen.height),
    browserScreenWidth: String(screen.width),
    browserTZ: String(new Date().getTimezoneOffset()),
    challengeWindowSize: size
  }
  return data
}
