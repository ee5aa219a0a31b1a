package linux

import (
	"fmt"

	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"machined/hal"
)

// Image implements hal.CRI.
func (c *CRI) Image(ref string) (hal.Image, error) {
	ctx, cancel := within(criSoon)
	defer cancel()
	answer, err := c.images.ImageStatus(ctx, &v1.ImageStatusRequest{Image: &v1.ImageSpec{Image: ref}})
	if err != nil {
		return hal.Image{}, criError(err, "look for image %s", ref)
	}
	if answer.GetImage() == nil {
		return hal.Image{}, fmt.Errorf("look for image %s: %w", ref, hal.ErrNotFound)
	}
	return imageOf(answer.Image), nil
}

func imageOf(i *v1.Image) hal.Image {
	return hal.Image{ID: i.Id, Tags: i.RepoTags, Digests: i.RepoDigests, SizeBytes: i.Size, Pinned: i.Pinned}
}

// Images implements hal.CRI.
func (c *CRI) Images() ([]hal.Image, error) {
	ctx, cancel := within(criSoon)
	defer cancel()
	answer, err := c.images.ListImages(ctx, &v1.ListImagesRequest{})
	if err != nil {
		return nil, criError(err, "list the images")
	}
	var images []hal.Image
	for _, i := range answer.Images {
		images = append(images, imageOf(i))
	}
	return images, nil
}

// PullImage implements hal.CRI.
func (c *CRI) PullImage(ref string, auth hal.Auth) (string, error) {
	ctx, cancel := within(criPull)
	defer cancel()
	request := &v1.PullImageRequest{Image: &v1.ImageSpec{Image: ref}}
	if auth != (hal.Auth{}) {
		request.Auth = &v1.AuthConfig{Username: auth.Username, Password: auth.Password}
	}
	answer, err := c.images.PullImage(ctx, request)
	if err != nil {
		return "", criError(err, "pull image %s", ref)
	}
	return answer.ImageRef, nil
}

// RemoveImage implements hal.CRI.
func (c *CRI) RemoveImage(id string) error {
	ctx, cancel := within(criCall)
	defer cancel()
	_, err := c.images.RemoveImage(ctx, &v1.RemoveImageRequest{Image: &v1.ImageSpec{Image: id}})
	if missing(err) {
		return nil
	}
	return criError(err, "remove image %s", id)
}

// Import implements hal.CRI.
func (c *CRI) Import(path string) error {
	if err := c.load(path); err != nil {
		return fmt.Errorf("import the images of %s: %w", path, err)
	}
	return nil
}
