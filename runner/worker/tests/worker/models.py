"""The numbers of PyTorch in `models.rs`: `python3 models.py [NAME...]`. The networks are written from their papers, and know nothing of the
layers of this project. Dropout is left out; all in 64 bits, and with `--single` in 32 bits, which says how far rounding goes."""

import sys

import torch
from torch.nn import functional as F

from imagenet import Weights, hashed

CLASSES, SIDES = 10, (3, 32, 32)
LABELS = [9, 3, 0, 1]


class Net(Weights):
    """Weights of a network with batch norms, whose scales are near 1."""

    def batch_norm(self, x):
        scale, shift = self(x.shape[1]), self(x.shape[1])
        with torch.no_grad():
            scale += 1
        return F.batch_norm(x, None, None, scale, shift, training=True)

    def layered_norm(self, x):
        """A norm that is a layer of its own."""
        self.layer()
        return self.batch_norm(x)

    def plain_conv(self, x, outputs, kernel, stride=1):
        """A convolution without a bias that keeps the sides, and its norm."""
        weight = self(outputs, x.shape[1], kernel, kernel)
        return self.batch_norm(F.conv2d(x, weight, None, stride, kernel // 2))


def softmax(x, net):
    return net.linear(x.flatten(1), CLASSES)


def mnist_mlp(x, net):
    """Pipe-SGD, section 4: 784-500-500-10."""
    x = F.relu(net.linear(x.flatten(1), 500))
    net.layer()
    x = F.relu(net.linear(x, 500))
    net.layer()
    return net.linear(x, CLASSES)


def lenet(x, net):
    """Caffe's, from lenet_train_test.prototxt: no rectifier between convolutions and pools."""
    x = F.max_pool2d(net.conv(x, 20, 5), 2)
    net.layer()
    x = F.max_pool2d(net.conv(x, 50, 5), 2)
    net.layer()
    x = F.relu(net.linear(x.flatten(1), 500))
    net.layer()
    return net.linear(x, CLASSES)


def cifar_quick(x, net, ceil, between):
    """Caffe's cifar10_quick: three convolutions of 5, one pool of maxima and two of means, two linear layers."""
    x = F.relu(F.max_pool2d(net.conv(x, 32, 5, padding=2), 3, 2, ceil_mode=ceil))
    net.layer()
    x = F.avg_pool2d(F.relu(net.conv(x, 32, 5, padding=2)), 3, 2, ceil_mode=ceil)
    net.layer()
    x = F.avg_pool2d(F.relu(net.conv(x, 64, 5, padding=2)), 3, 2, ceil_mode=ceil)
    net.layer()
    x = between(net.linear(x.flatten(1), 64))
    net.layer()
    return net.linear(x, CLASSES)


def cifar_cnn(x, net):
    return cifar_quick(x, net, ceil=False, between=F.relu)


def cifar100_cnn(x, net):
    return cifar_quick(x, net, ceil=True, between=lambda x: x)


def shortcut(x, net, width, stride):
    """Option B of He et al.: the weights of the shortcut come behind those of the branch."""
    return x if x.shape[1] == width and stride == 1 else net.plain_conv(x, width, 1, stride)


def basic(x, net, width, stride):
    net.layer()
    y = net.plain_conv(F.relu(net.plain_conv(x, width, 3, stride)), width, 3)
    return F.relu(y + shortcut(x, net, width, stride))


def bottleneck(x, net, width, stride):
    net.layer()
    y = F.relu(net.plain_conv(x, width, 1))
    y = F.relu(net.plain_conv(y, width, 3, stride))
    y = net.plain_conv(y, 4 * width, 1)
    return F.relu(y + shortcut(x, net, 4 * width, stride))


def stem(x, net, outputs, kernel, stride):
    """The first convolution and its norm, which are two layers."""
    x = F.conv2d(x, net(outputs, x.shape[1], kernel, kernel), None, stride, kernel // 2)
    return F.relu(net.layered_norm(x))


def groups(x, net, block, widths, blocks):
    """Groups of blocks, of which each but the first halves the sides; then the mean of each channel, and scores."""
    for group, (width, count) in enumerate(zip(widths, blocks)):
        for place in range(count):
            x = block(x, net, width, 2 if group and not place else 1)
    net.layer()
    return net.linear(x.mean((2, 3)), CLASSES)


def resnet20(x, net):
    return groups(stem(x, net, 16, 3, 1), net, basic, (16, 32, 64), (3, 3, 3))


def resnet18(x, net):
    x = F.max_pool2d(stem(x, net, 64, 7, 2), 3, 2, 1)
    return groups(x, net, basic, (64, 128, 256, 512), (2, 2, 2, 2))


def resnet50(x, net):
    x = F.max_pool2d(stem(x, net, 64, 7, 2), 3, 2, 1)
    return groups(x, net, bottleneck, (64, 128, 256, 512), (3, 4, 6, 3))


def classifier(x, net, widths):
    x = x.flatten(1)
    for width in widths:
        x = F.relu(net.linear(x, width))
        net.layer()
    return net.linear(x, CLASSES)


def vgg(x, net, stacks, widths):
    """Simonyan and Zisserman: convolutions of 3 with a rectifier each, and a pool of 2 behind each stack."""
    for width, count in stacks:
        for _ in range(count):
            x = F.relu(net.conv(x, width, 3, padding=1))
            net.layer()
        x = F.max_pool2d(x, 2)
    return classifier(x, net, widths)


def vgg19(x, net):
    """Configuration E."""
    return vgg(x, net, ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)), (4096, 4096))


def vgg_splitbrain(x, net):
    """SplitBrain, table 1."""
    return vgg(x, net, ((64, 2), (128, 2), (256, 3)), (1024, 1024))


def vgg_cifar(x, net):
    """Zagoruyko's vgg_bn_drop: configuration D with batch norms, and a classifier of 512."""
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            x = F.relu(net.layered_norm(net.conv(x, width, 3, padding=1)))
            net.layer()
        x = F.max_pool2d(x, 2, ceil_mode=True)
    x = F.relu(net.layered_norm(net.linear(x.flatten(1), 512)))
    net.layer()
    return net.linear(x, CLASSES)


def alexnet_cifar(x, net):
    x = F.max_pool2d(F.relu(net.conv(x, 96, 5, stride=2, padding=2)), 2)
    net.layer()
    x = F.max_pool2d(F.relu(net.conv(x, 256, 5, padding=2)), 2)
    net.layer()
    for width in (384, 384, 256):
        x = F.relu(net.conv(x, width, 3, padding=1))
        net.layer()
    return classifier(F.max_pool2d(x, 2), net, (4096, 4096))


NETWORKS = (
    (softmax, 4),
    (mnist_mlp, 4),
    (lenet, 4),
    (cifar_cnn, 4),
    (resnet20, 4),
    (resnet18, 4),
    # Of its last norms each takes the mean of one value of an image: with four images PyTorch's own 32 bits are 9 % away from 64 bits.
    (resnet50, 64),
    (vgg19, 4),
    (vgg_cifar, 4),
    (cifar100_cnn, 4),
    (alexnet_cifar, 4),
    (vgg_splitbrain, 4),
)


def numbers(values):
    """The length, and the product with fixed numbers."""
    values = values.detach().flatten().double()
    return values.norm().item(), (values * hashed(len(values), 7)).sum().item()


def show(network, images, kind):
    net = Net()
    net.kind = kind
    net.layer()
    x = hashed(images * 3 * 32 * 32, 1000).float().to(kind).reshape(images, *SIDES)
    scores = network(x, net)
    labels = torch.tensor(LABELS * (images // len(LABELS)))
    loss = F.cross_entropy(scores, labels)
    loss.backward()
    bounds = net.layers + [len(net.tensors)]
    name = network.__name__.title().replace("_", "")
    print(f"    Numbers {{ kind: ModelKind::{name}, images: {images}, loss: {loss.item():.9f},")
    print("        scores: (%.6f, %.6f), gradient: &[" % numbers(scores))
    for begin, end in zip(bounds, bounds[1:]):
        print("            (%.6f, %.6f)," % numbers(torch.cat([tensor.grad.flatten() for tensor in net.tensors[begin:end]])))
    print("        ] },")


if __name__ == "__main__":
    kind = torch.float32 if "--single" in sys.argv else torch.float64
    named = [name for name in sys.argv[1:] if not name.startswith("-")]
    for network, images in NETWORKS:
        if not named or network.__name__ in named:
            show(network, images, kind)
