// Score against real success, with the success that the gate predicts for each score.
import { drawn, percent } from "/static/console.js";

export const y = (share) => 270 - 250 * share;
export const axes = (low, high) => [drawn("line", { class: "axis", x1: 40, x2: 400, y1: 270, y2: 270 }), drawn("line", { class: "axis", x1: 40, x2: 40, y1: 20, y2: 270 }),
  drawn("text", { x: 36, y: 24, "text-anchor": "end" }, high), drawn("text", { x: 36, y: 273, "text-anchor": "end" }, low)];

// Returns whether there was anything to draw.
export function drawScatter(svg, found) {
  const tried = found.candidates.filter((row) => typeof row.score === "number" && row.real.trials);
  const scores = [...tried.map((row) => row.score), ...found.expected.map((point) => point.score)];
  if (!scores.length) return false;
  const [low, high] = [Math.min(...scores), Math.max(...scores)];
  const x = (score) => 50 + (340 * (score - low)) / (high - low || 1);
  const points = (of, name) => of.map((point) => `${x(point.score).toFixed(1)},${y(point[name]).toFixed(1)}`);
  const band = [...points(found.expected, "low"), ...points([...found.expected].reverse(), "high")].join(" ");
  svg.replaceChildren(...axes("0 %", "100 %"),
    drawn("text", { x: 50, y: 285 }, low.toFixed(2)), drawn("text", { x: 390, y: 285, "text-anchor": "end" }, high.toFixed(2)),
    drawn("text", { x: 220, y: 295, "text-anchor": "middle" }, "score"), drawn("text", { x: 46, y: 14 }, "real success"),
    drawn("polygon", { points: band, fill: "var(--accent)", "fill-opacity": 0.12 }),
    drawn("polyline", { id: "expected", points: points(found.expected, "mean").join(" "), fill: "none", stroke: "var(--accent)" }),
    ...tried.flatMap((row) => [drawn("line", { x1: x(row.score), x2: x(row.score), y1: y(row.real.interval[0]), y2: y(row.real.interval[1]), stroke: "var(--ink)" }),
      drawn("circle", { cx: x(row.score), cy: y(row.real.successes / row.real.trials), r: 4, fill: "var(--ink)" },
        drawn("title", {}, `${row.name}: ${row.real.successes} of ${row.real.trials}, ${percent(row.real.successes / row.real.trials)}`))]));
  return true;
}
