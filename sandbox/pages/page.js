for (const form of document.querySelectorAll("form[data-after]")) {
  setTimeout(() => form.submit(), Number(form.dataset.after));
}
// In a shop's frame there is no autofocus. Who has answered is in the page
// already, and goes on where the answer is described. What coming back restores
// in the field, before this event, is written over.
addEventListener("pageshow", () => {
  const field = document.querySelector("[data-focus]");
  field?.focus();
  field?.select();
});
