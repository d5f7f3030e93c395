package browser

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/png"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// pictureFile is where the picture of the README goes; empty: nowhere.
var pictureFile = flag.String("picture", "", "write the picture of the console to `FILE`")

// The size of the picture of the README: in pixels, and at most in bytes.
const (
	pictureWidth, pictureHeight = 1120, 790
	pictureMax                  = 150_000
)

// TestPicture takes the picture of the README: an incident of the demo, derived on this machine.
func TestPicture(t *testing.T) {
	l := start(t)
	url := strings.TrimSuffix(l.serve("console", "--url", l.url, "--home", l.home(), "--listen", "127.0.0.1:0", "--read-only"), "/")
	page := open(t)
	page.look(pictureWidth, "light")
	page.do(chromedp.EmulateViewport(pictureWidth, pictureHeight), chromedp.Navigate(url+"/incidents/43"))
	page.says("PARTIAL")
	shot, err := chromedp.Run(page.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	made, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	var small bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, fewColors(made)); err != nil {
		t.Fatal(err)
	}
	if size := made.Bounds().Size(); size != image.Pt(pictureWidth, pictureHeight) || small.Len() > pictureMax {
		t.Errorf("the picture is %v and has %d bytes, want at most %d", size, small.Len(), pictureMax)
	}
	if *pictureFile == "" {
		return
	}
	if err := os.WriteFile(*pictureFile, small.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// fewColors returns a picture with the 256 most frequent colors of another one: a byte a pixel, not
// three. Letters have few colors, and the rare ones are close to a frequent one.
func fewColors(from image.Image) *image.Paletted {
	count := map[color.RGBA]int{}
	box := from.Bounds()
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			count[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)]++
		}
	}
	colors := make([]color.RGBA, 0, len(count))
	for c := range count {
		colors = append(colors, c)
	}
	slices.SortFunc(colors, func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	var palette color.Palette
	for _, c := range colors[:min(len(colors), 256)] {
		palette = append(palette, c)
	}
	nearest := map[color.RGBA]uint8{}
	made := image.NewPaletted(box, palette)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			c := color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)
			n, known := nearest[c]
			if !known {
				n = uint8(palette.Index(c))
				nearest[c] = n
			}
			made.SetColorIndex(x, y, n)
		}
	}
	return made
}
