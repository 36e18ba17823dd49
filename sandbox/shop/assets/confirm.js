// Secure Payment Confirmation: the browser's own dialog, in which the cardholder
// confirms a payment with a key that the bank knows.
const method = "secure-payment-confirmation";

// bytes decodes base64url.
const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));

// available resolves to true if this browser can confirm payments.
export async function available() {
  try {
    if (PaymentRequest.securePaymentConfirmationAvailability) {
      return await PaymentRequest.securePaymentConfirmationAvailability() === "available";
    }
    return Boolean(await PaymentRequest.isSecurePaymentConfirmationAvailable?.());
  } catch {
    return false; // no PaymentRequest, or not on this page
  }
}

// confirm shows the dialog and resolves to what the second AReq says: {assertion}, or
// {incomplete} with 01 for a failure and 02 for a cardholder who cancelled.
export async function confirm({ credentials, transaction }) {
  const { rpID, credentialIds } = credentials[0];
  const { challenge, payeeName, payeeOrigin, currency, value, displayName, icon, timeout } = transaction;
  const data = {
    rpId: rpID,
    credentialIds: [credentialIds].flat().map(bytes),
    challenge: bytes(challenge),
    instrument: { displayName, icon },
    timeout: Number(timeout),
  };
  if (payeeName) data.payeeName = payeeName; // one of the two is mandatory
  if (payeeOrigin) data.payeeOrigin = payeeOrigin;
  try {
    const request = new PaymentRequest([{ supportedMethods: method, data }], { total: { label: "Total", amount: { currency, value } } });
    const response = await request.show();
    await response.complete("success");
    return { assertion: response.details.toJSON() };
  } catch (error) {
    console.warn(error);
    return { incomplete: ["NotAllowedError", "AbortError"].includes(error.name) ? "02" : "01" };
  }
}
