package fake

import (
	"slices"

	"machined/hal"
)

// Image implements hal.CRI.
func (c *CRI) Image(ref string) (hal.Image, error) {
	if err := c.call("Image", ""); err != nil {
		return hal.Image{}, err
	}
	for _, i := range c.images {
		if i.ID == ref || slices.Contains(i.Tags, ref) || slices.Contains(i.Digests, ref) {
			return i, nil
		}
	}
	return hal.Image{}, hal.ErrNotFound
}

// Images implements hal.CRI.
func (c *CRI) Images() ([]hal.Image, error) {
	if err := c.call("Images", ""); err != nil {
		return nil, err
	}
	return append([]hal.Image(nil), c.images...), nil
}

// PullImage implements hal.CRI.
func (c *CRI) PullImage(ref string, auth hal.Auth) (string, error) {
	if err := c.call("PullImage", "pull "+ref); err != nil {
		return "", err
	}
	c.Signed = auth
	for _, s := range c.Registry {
		if s.Ref == ref {
			return s.Image.ID, c.store(s.Image)
		}
	}
	return "", hal.ErrNotFound
}

// Import implements hal.CRI.
func (c *CRI) Import(path string) error {
	if err := c.call("Import", "import "+path); err != nil {
		return err
	}
	found := false
	for _, s := range c.Card {
		if s.Ref == path {
			found = true
			if err := c.store(s.Image); err != nil {
				return err
			}
		}
	}
	if !found {
		return hal.ErrNotFound
	}
	return nil
}

func (c *CRI) store(i hal.Image) error {
	for _, other := range c.images {
		if other.ID == i.ID {
			return nil
		}
	}
	if i.SizeBytes > c.Free {
		return hal.ErrNoSpace
	}
	c.Free -= i.SizeBytes
	c.images = append(c.images, i)
	return nil
}

// RemoveImage implements hal.CRI.
func (c *CRI) RemoveImage(id string) error {
	if err := c.call("RemoveImage", "remove image "+id); err != nil {
		return err
	}
	kept := c.images[:0]
	for _, i := range c.images {
		if i.ID == id {
			c.Free += i.SizeBytes
			continue
		}
		kept = append(kept, i)
	}
	c.images = kept
	return nil
}

// Usage implements hal.CRI.
func (c *CRI) Usage() (size, free uint64, err error) {
	if err := c.call("Usage", ""); err != nil {
		return 0, 0, err
	}
	return c.Size, c.Free, nil
}
