// The two ceremonies of WebAuthn. A form with data-ceremony has the options of its ceremony in data-options; what the
// authenticator answers goes into its field credential, and then the form is sent like any other.
"use strict";

const decode = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));

const encode = (buffer) => {
  if (!buffer) return undefined;
  let text = "";
  for (const byte of new Uint8Array(buffer)) text += String.fromCharCode(byte);
  return btoa(text).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
};

// readOptions turns the texts of options into bytes where WebAuthn wants bytes.
const readOptions = (text) => {
  const options = JSON.parse(text).publicKey;
  options.challenge = decode(options.challenge);
  if (options.user) options.user.id = decode(options.user.id);
  for (const list of [options.excludeCredentials, options.allowCredentials]) {
    for (const known of list ?? []) known.id = decode(known.id);
  }
  return options;
};

// writeCredential is the JSON of what the authenticator has answered.
const writeCredential = (made) => JSON.stringify({
  id: made.id,
  rawId: encode(made.rawId),
  type: made.type,
  authenticatorAttachment: made.authenticatorAttachment ?? undefined,
  clientExtensionResults: made.getClientExtensionResults(),
  response: {
    clientDataJSON: encode(made.response.clientDataJSON),
    attestationObject: encode(made.response.attestationObject),
    transports: made.response.getTransports?.(),
    authenticatorData: made.response.attestationObject ? undefined : encode(made.response.authenticatorData),
    signature: encode(made.response.signature),
    userHandle: encode(made.response.userHandle),
  },
});

const faults = {
  NotAllowedError: "It was cancelled, took too long, or this device has no passkey for this console. Try again.",
  InvalidStateError: "This device has a passkey for this console already. Log in with it.",
  SecurityError: "The address in the browser is not the one that the console is configured for.",
  NotSupportedError: "This device cannot make such a passkey. Use another device or a security key.",
};

for (const form of document.querySelectorAll("form[data-ceremony]")) {
  const fault = form.querySelector("[data-fault]");
  const button = form.querySelector("button");
  const say = (text) => {
    fault.textContent = text;
    fault.hidden = !text;
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (button.disabled) return;
    say("");
    if (!window.PublicKeyCredential) {
      say("This browser knows no passkeys, or the page did not come by https.");
      return;
    }
    button.disabled = true;
    try {
      const publicKey = readOptions(form.dataset.options);
      const made = await navigator.credentials[form.dataset.ceremony]({ publicKey });
      form.elements.credential.value = writeCredential(made);
      form.submit();
    } catch (error) {
      button.disabled = false;
      say(faults[error.name] ?? "It did not work: " + error.name + ". Load the page anew and try again.");
    }
  });
}
