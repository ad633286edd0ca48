"""Targets that are flipped, rotated or shifted in another way than their images."""

from __future__ import annotations

from nbdebug.finding import Finding
from nbdebug.measurements.paired_transforms import UnpairedTransforms
from nbdebug.measurements.target_symmetries import MovedTarget
from nbdebug.measurements.unexchanged_channels import UnexchangedChannels
from nbdebug.measurements.unmoved_targets import UnmovedTarget
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import origin_line
from nbdebug.setup.position_writes import position_write_line
from nbdebug.source.location import get_location


def unpaired_finding(unpaired: UnpairedTransforms) -> Finding:
    """Report images and targets that are transformed differently."""
    return Finding(
        message=f"In {unpaired.different} of {unpaired.compared} pairs of reads of the same training sample, the image "
        f"and its target are {unpaired.kind} differently; expected the same transform for both.",
        where=get_location(unpaired.line),
        cause="The random transform is drawn twice, once for the image and once for its target.",
        fix="planes = mask.reshape(-1, *image.shape[-2:])\n"
        "both = augment(torch.cat([image, planes.float()]))   # one draw for both; nearest interpolation, no colors\n"
        "image, mask = both[: len(image)], both[len(image) :].reshape(mask.shape).to(mask.dtype)",
        evidence={
            "pairs": unpaired.compared,
            "different": unpaired.different,
            "samples": unpaired.samples,
            "kind": unpaired.kind,
        },
        explains=("T601", "T606", "T607", "T608", "T610", "E706", "E709", "D112"),
        aspect="transforms",
    )


def moved_finding(setup: Setup, moved: MovedTarget) -> Finding:
    """Report targets in another orientation than their images."""
    return Finding(
        message=f"The target is {moved.symmetry} relative to its image: in {moved.samples} training samples, the image "
        f"around a position explains {moved.unmoved_score:.1%} of the variance of the target there, and "
        f"{moved.score:.1%} if this is undone (at most {moved.chance_score:.1%} with the targets of other samples).",
        where=get_location(position_write_line(setup) or origin_line(setup, "targets")),
        cause="An image is indexed by row and column, which are y and x. A flip or a rotation must move both parts.",
        fix="heat[y, x] = 1.0   # the row first",
        evidence={
            "symmetry": moved.symmetry,
            "score": moved.score,
            "unmoved": moved.unmoved_score,
            "chance": moved.chance_score,
            "samples": moved.samples,
        },
        aspect="orientation",
    )


def unmoved_finding(unmoved: UnmovedTarget) -> Finding:
    """Report positions that stay where they were while the images are mirrored."""
    return Finding(
        message=f"In two reads of each of {unmoved.samples} training samples, the image of one read is that of the "
        f"other one, mirrored {unmoved.mirror}, and their targets are equal. Value {unmoved.position} of the "
        "target is a position: a linear learner of the validation images explains "
        f"{unmoved.explained:.0%} of its variance. Its predictions for images and their mirror images have a "
        f"correlation of {unmoved.correlation:.2g}.",
        where=get_location(unmoved.line),
        cause="The random flip moves the image, and leaves the coordinates of its target where they were.",
        fix="image = image.flip(-1)\nbox[0] = 1 - box[0]   # of coordinates from 0 to 1; else the width minus x",
        evidence={
            "position": unmoved.position,
            "mirrored": unmoved.mirror,
            "samples": unmoved.samples,
            "explained": unmoved.explained,
            "correlation": unmoved.correlation,
        },
        aspect="positions",
    )


def unexchanged_finding(channels: UnexchangedChannels) -> Finding:
    """Report channels that are mirrored with the images, and do not change places."""
    first, second = channels.first, channels.second
    return Finding(
        message=f"In {channels.samples} training samples, a second read mirrors image and target {channels.mirror}, "
        f"and does not exchange channels of the target. Channel {first} lies before channel {second} in "
        f"{channels.ordered:.0%} of {channels.rows} validation samples, and mirroring reverses this order. A learner "
        f"separates the mirrored images around channel {first} from the images around channel {second} with an "
        f"accuracy of {channels.separation:.0%}; chance is 50%. It separates the images around both from other places "
        f"with an accuracy of {channels.recognition:.0%}.",
        where=get_location(channels.line),
        cause=f"In a mirrored image, the part at channel {first} looks like that at channel {second} in other images. "
        "The flip moves the channels and does not exchange them, so the mirrored samples contradict the others.",
        fix=f"target[[{first}, {second}]] = target[[{second}, {first}]]   # where the target is mirrored, after it",
        evidence={
            "channels": [first, second],
            "mirrored": channels.mirror,
            "samples": channels.samples,
            "rows": channels.rows,
            "ordered": channels.ordered,
            "separation": channels.separation,
            "recognition": channels.recognition,
        },
        aspect="channels",
    )
