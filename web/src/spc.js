// Secure Payment Confirmation: the browser's own dialog, in which the cardholder confirms the payment with a key that the
// issuer knows.

const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0))

/** hasSPC resolves with whether this browser can confirm payments in this page. It takes a second at most. */
export function hasSPC() {
  const ask = async () => {
    if (!PublicKeyCredential.prototype.toJSON) return false
    const availability = PaymentRequest.securePaymentConfirmationAvailability
    if (availability) return await availability.call(PaymentRequest) == 'available'
    return !!await PaymentRequest.isSecurePaymentConfirmationAvailable()
  }
  return Promise.race([
    ask().catch(() => false), // There is no such browser, or the page may not ask.
    new Promise((resolve) => setTimeout(resolve, 1000, false))
  ])
}

/**
 * confirmPayment shows the dialog, and resolves with what became of it: {assertion}, or {incomplete}
 * with '01' for a failure and '02' when the cardholder has cancelled. A browser that wants a click first gets one.
 */
export async function confirmPayment({ credentials, transaction }, ui, signal) {
  try {
    const { rpID, credentialIds } = credentials[0]
    const { challenge, payeeName, payeeOrigin, currency, value, displayName, icon, timeout } = transaction
    const data = {
      rpId: rpID, credentialIds: [credentialIds].flat().map(bytes), challenge: bytes(challenge),
      instrument: { displayName, icon }, timeout: Number(timeout)
    }
    if (payeeName) data.payeeName = payeeName
    if (payeeOrigin) data.payeeOrigin = payeeOrigin
    const show = async () => {
      const request = new PaymentRequest([{ supportedMethods: 'secure-payment-confirmation', data }], { total: { label: ui.text('title'), amount: { currency, value } } })
      const abort = () => request.abort().catch(() => {})
      signal.addEventListener('abort', abort)
      try {
        const response = await request.show()
        await response.complete('success')
        return { assertion: response.details.toJSON() }
      } finally {
        signal.removeEventListener('abort', abort)
      }
    }
    try {
      return await show()
    } catch (error) {
      if (error.name != 'SecurityError') throw error
      await ui.askForClick(signal)
      ui.showWaiting()
      return await show()
    }
  } catch (error) {
    console.warn(error)
    return { incomplete: ['NotAllowedError', 'AbortError'].includes(error.name) ? '02' : '01' }
  }
}
