// Command fleet-plot draws what BenchmarkFleet measured: what the apiserver sends while pods change, and how
// often it lists pods after its restart, by the number of agents on a node.
// Usage: fleet-plot ROWS.json PICTURE.svg
package main

import (
	"encoding/json"
	"fmt"
	"image/color"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// row has the fields of a row of BenchmarkFleet that the picture shows.
type row struct {
	Agents   int     `json:"agents"`
	Behind   bool    `json:"behind"`
	Kilobyte float64 `json:"serverKB"`
	Restart  struct{ Lists float64 }
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: fleet-plot ROWS.json PICTURE.svg")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "fleet-plot:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err //nolint:wrapcheck // it says what it is
	}
	var rows []row
	if err := json.Unmarshal(data, &rows); err != nil || len(rows) == 0 {
		return fmt.Errorf("rows of BenchmarkFleet expected in %s: %w", from, err)
	}
	plot.DefaultFont.Variant = "Sans"
	base := rows[0] // without agents
	sent, err := panel("The apiserver sends, kB a second", rows, func(r row) float64 { return r.Kilobyte - base.Kilobyte })
	if err != nil {
		return err
	}
	restart, err := panel("After its restart, it lists the pods of a node", rows, func(r row) float64 { return r.Restart.Lists - base.Restart.Lists })
	if err != nil {
		return err
	}
	const width, height = 24 * vg.Centimeter, 9 * vg.Centimeter
	canvas := vgsvg.New(width, height)
	panels := [][]*plot.Plot{{sent, restart}}
	tiles := draw.Tiles{Rows: 1, Cols: 2, PadX: vg.Centimeter, PadTop: vg.Millimeter, PadBottom: vg.Millimeter, PadLeft: vg.Millimeter, PadRight: 3 * vg.Millimeter}
	for i, c := range plot.Align(panels, tiles, draw.New(canvas))[0] {
		panels[0][i].Draw(c)
	}
	file, err := os.Create(to)
	if err != nil {
		return err //nolint:wrapcheck // it says what it is
	}
	if _, err := canvas.WriteTo(file); err != nil {
		return err //nolint:wrapcheck // it says what it is
	}
	return file.Close() //nolint:wrapcheck // it says what it is
}

// panel draws a value by the number of agents.
func panel(title string, rows []row, value func(row) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = title, "agents on each node"
	p.X.Min, p.Y.Min = 0, 0
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for _, way := range []struct {
		name   string
		behind bool
		paint  color.Color
	}{{"each watches the apiserver", false, color.RGBA{R: 0xd0, G: 0x50, B: 0x20, A: 0xff}}, {"all watch podconfigd", true, color.RGBA{G: 0x70, B: 0xa0, A: 0xff}}} {
		var points plotter.XYs
		for _, r := range rows[1:] {
			if r.Behind == way.behind {
				points = append(points, plotter.XY{X: float64(r.Agents), Y: value(r)})
			}
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("drawing %s: %w", title, err)
		}
		line.Width, line.Color, marks.Color, marks.Shape = vg.Points(2), way.paint, way.paint, draw.CircleGlyph{}
		p.Add(line, marks)
		p.Legend.Add(way.name, line, marks)
	}
	return p, nil
}
