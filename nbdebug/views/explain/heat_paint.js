// @ts-check
/** The paint of a heat map: the picture in gray, paler the stronger the map is to be, and colors over it. */
import { h } from "../kit.js";
import { palette, rgbOf, sharp } from "../axes.js";

/** A picture that no other address than its own can be; draws when it is there. @param {string | undefined} src @param {() => void} then */
export function heatPicture(src, then) {
  if (!String(src ?? "").startsWith("data:image/")) return null;
  const image = new Image();
  image.onload = then;
  image.src = String(src);
  return image;
}

/**
 * @param {HTMLCanvasElement} canvas @param {[number, number]} size
 * @param {{rows: number, columns: number, coarse: boolean, bytes: Int8Array, share: number, now: number}} map `share` is how many times full color the largest is
 * @param {HTMLImageElement | null} picture @param {{heat: number, sign: string}} look
 */
export function heatPaint(canvas, [wide, high], map, picture, look) {
  const g = sharp(canvas, wide, high), { ink, paper, lines } = palette(/** @type {HTMLElement} */ (canvas.parentElement));
  g.imageSmoothingEnabled = !map.coarse;
  g.fillStyle = paper;
  g.fillRect(0, 0, wide, high);
  if (picture?.complete && picture.naturalWidth) {
    g.globalAlpha = look.heat ? Math.max(0, 1 - look.heat) : 1;
    g.drawImage(look.heat ? heatGray(picture) : picture, 0, 0, wide, high);
    g.globalAlpha = 1;
  }
  if (look.heat) {
    g.globalAlpha = Math.min(1, 1.6 * look.heat);
    g.drawImage(heatLayer(map, rgbOf(lines[1]), rgbOf(lines[0]), look.sign), 0, 0, wide, high);
    g.globalAlpha = 1;
  }
  if (map.now < 0) return;
  const [x, y] = [wide / map.columns, high / map.rows], [left, top] = [(map.now % map.columns) * x, Math.floor(map.now / map.columns) * y];
  g.strokeStyle = ink;
  g.strokeRect(left + 0.5, top + 0.5, Math.max(4, x) - 1, Math.max(4, y) - 1);
}

/** A picture without its colors, which are those of the map. @param {HTMLImageElement} picture */
function heatGray(picture) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { width: picture.naturalWidth, height: picture.naturalHeight })), g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  g.drawImage(picture, 0, 0);
  g.globalCompositeOperation = "saturation";
  g.fillStyle = "#808080";
  g.fillRect(0, 0, canvas.width, canvas.height);
  g.globalCompositeOperation = "destination-in";
  g.drawImage(picture, 0, 0);
  return canvas;
}

/** The colors of all places, clear where nothing is. @param {{rows: number, columns: number, bytes: Int8Array, share: number}} map @param {number[]} up @param {number[]} down @param {string} sign */
function heatLayer({ rows, columns, bytes, share }, up, down, sign) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { width: columns, height: rows })), g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")), pixels = g.createImageData(columns, rows);
  bytes.forEach((v, i) => {
    const hidden = (sign === "up" && v < 0) || (sign === "down" && v > 0);
    pixels.data.set([...(v < 0 ? down : up), hidden ? 0 : Math.min(255, (255 * share * Math.abs(v)) / 127)], 4 * i);
  });
  g.putImageData(pixels, 0, 0);
  return canvas;
}
