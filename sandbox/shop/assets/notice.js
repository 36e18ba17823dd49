// Tells the shop's page that a step is over. A bank that has left its frame
// gets the shopper here without a parent; the shop's page then finds its place
// again by itself. In the frame, the link would open a shop within the shop.
const { step } = document.body.dataset;
if (window.parent !== window) {
  document.getElementById("way-back").hidden = true;
  if (step) window.parent.postMessage({ shop: step }, location.origin);
} else if (step) {
  location.replace("/steps");
}
