"""Each format of boxes is read as it is meant; what is wrong in a file is named, and refused."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from taut.errors import InvalidData, InvalidType
from taut.vision.annotations import as_boxes, read_boxes
from taut.vision.boxes import Boxes

SIZES = {"a": (40, 20), "b": (30, 50), "c": (10, 10)}  # width and height
# Images a and b have boxes, of which one is ignored where a format can say so; c has none.
BOXES = {
    "a": [("cat", (4, 2, 14, 12), False), ("dog", (20, 5, 40, 20), True)],
    "b": [("cat", (0, 0, 30, 50), False)],
    "c": [],
}


def write_image(path, width, height):
    path.write_bytes(f"P6 {width} {height} 255 ".encode() + bytes(3 * width * height))


@pytest.fixture
def folder(tmp_path):
    """A folder with three images."""
    pytest.importorskip("PIL", reason="Pillow reads the sizes of images")
    (tmp_path / "images").mkdir()
    for name, size in SIZES.items():
        write_image(tmp_path / "images" / f"{name}.ppm", *size)
    return tmp_path


# Writers, each of which returns what `read_boxes` is given


def voc_text(name, boxes, size=None, head=""):
    width, height = size or SIZES[name]
    objects = "".join(
        f"<object><name>{kind}</name><difficult>{ignored:d}</difficult><part><name>ear</name>"
        f"<bndbox><xmin>9</xmin></bndbox></part><bndbox><xmin>{edges[0] + 1}</xmin>"
        f"<ymin>{edges[1] + 1}</ymin><xmax>{edges[2]}</xmax><ymax>{edges[3]}</ymax></bndbox>"
        "</object>\n"
        for kind, edges, ignored in boxes
    )
    return (
        f"{head}<annotation>\n<filename>{name}.ppm</filename>\n<size><width>{width}</width>"
        f"<height>{height}</height></size>\n{objects}</annotation>"
    )


def write_voc(folder, boxes=BOXES):
    (folder / "Annotations").mkdir()
    for name, of_image in boxes.items():
        (folder / "Annotations" / f"{name}.xml").write_text(voc_text(name, of_image))
    return folder / "Annotations"


def coco(boxes=BOXES):
    names = ["unused", "dog", "cat"]
    images = [
        {
            "id": 10 + i,
            "file_name": f"{name}.ppm",
            "width": SIZES[name][0],
            "height": SIZES[name][1],
        }
        for i, name in enumerate(boxes)
    ]
    annotations = [
        {
            "image_id": 10 + i,
            "category_id": names.index(kind),
            "bbox": [left, top, right - left, bottom - top],
            "iscrowd": int(ignored),
        }
        for i, of_image in enumerate(boxes.values())
        for kind, (left, top, right, bottom), ignored in of_image
    ]
    categories = [{"id": i, "name": name} for i, name in enumerate(names)]
    return {"images": images, "annotations": annotations, "categories": categories}


def write_coco(folder, boxes=BOXES):
    (folder / "instances.json").write_text(json.dumps(coco(boxes)))
    return folder / "instances.json"


def yolo_text(name, boxes):
    width, height = SIZES[name]
    return "\n".join(
        f"{['dog', 'cat'].index(kind)} {(left + right) / 2 / width:.6f} "
        f"{(top + bottom) / 2 / height:.6f} {(right - left) / width:.6f} "
        f"{(bottom - top) / height:.6f}"
        for kind, (left, top, right, bottom), _ in boxes
    )


def write_yolo(folder, boxes=BOXES):
    labels = folder / "labels"
    labels.mkdir()
    (labels / "classes.txt").write_text("dog\ncat\n")
    for name, of_image in boxes.items():
        if of_image:  # those without boxes need no file
            (labels / f"{name}.txt").write_text(yolo_text(name, of_image))
    return labels


def plain(boxes=BOXES):
    return [
        {
            "file": f"{name}.ppm",
            "width": SIZES[name][0],
            "height": SIZES[name][1],
            "boxes": [[kind, *edges] for kind, edges, _ in of_image],
            "split": "test" if name == "b" else "train",
        }
        for name, of_image in boxes.items()
    ]


def write_plain(folder, boxes=BOXES):
    (folder / "boxes.json").write_text(json.dumps(plain(boxes)))
    return folder / "boxes.json"


WRITERS = {"voc": write_voc, "coco": write_coco, "yolo": write_yolo, "plain": write_plain}


@pytest.fixture(params=WRITERS)
def kind(request):
    return request.param


def assert_is(data, folder, boxes=BOXES, with_ignored=True):
    assert data.images == [folder / f"{name}.ppm" for name in boxes]
    for found, of_image in zip(data.boxes, boxes.values(), strict=True):
        expected = np.array([edges for _, edges, _ in of_image], dtype=float).reshape(-1, 4)
        np.testing.assert_allclose(found.edges, expected, atol=1e-4)
        assert found.edges.dtype == np.float64
        assert found.classes.tolist() == [name for name, _, _ in of_image]
        assert found.ignored.dtype == bool
        assert found.ignored.tolist() == [with_ignored and ignored for _, _, ignored in of_image]


# What is read


@pytest.mark.parametrize("given_format", [True, False])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_formats_are_read(kind, given_format, elsewhere, folder):
    path = WRITERS[kind](folder)
    images = folder / "images"
    if elsewhere:
        images = images.rename(folder / "pictures")
    data = read_boxes(path, kind if given_format else None, images if elsewhere else None)
    assert_is(data, images, with_ignored=kind in ("voc", "coco"))
    assert data.classes == ["cat", "dog"]
    assert len(data) == 3


def test_a_folder_with_a_file_and_notes(folder):
    write_plain(folder)
    (folder / "SOURCE.txt").write_text("Photographs of cats: 3 images\n")
    assert len(read_boxes(folder)) == 3


def test_single_files(folder):
    path = write_voc(folder) / "b.xml"
    assert_is(read_boxes(path), folder / "images", {"b": BOXES["b"]})
    path = write_yolo(folder) / "b.txt"
    assert_is(read_boxes(path), folder / "images", {"b": BOXES["b"]})


def test_images_beside_their_boxes(kind, folder):
    path = WRITERS[kind](folder)
    place = path if path.is_dir() else path.parent
    for image in (folder / "images").iterdir():
        image.rename(place / image.name)
    assert_is(read_boxes(path), place, with_ignored=kind in ("voc", "coco"))


def test_splits_of_yolo(folder):
    (folder / "images").rename(folder / "train")
    (folder / "images").mkdir()
    (folder / "train").rename(folder / "images" / "train")
    labels = write_yolo(folder)
    (labels / "train").mkdir()
    for name in ("a", "b"):
        (labels / f"{name}.txt").rename(labels / "train" / f"{name}.txt")
    data = read_boxes(labels / "train")
    assert_is(data, folder / "images" / "train", with_ignored=False)


@pytest.mark.parametrize("given_format", ["yolo", None])
def test_yolo_above_its_labels(given_format, folder):
    labels = write_yolo(folder)
    (labels / "classes.txt").rename(folder / "classes.txt")
    assert_is(read_boxes(folder, given_format), folder / "images", with_ignored=False)


def test_names_of_yolo(folder):
    labels = write_yolo(folder)
    (labels / "classes.txt").rename(folder / "obj.names")
    assert read_boxes(labels).classes == ["cat", "dog"]
    assert read_boxes(labels, names=["bird", "fish"]).classes == ["bird", "fish"]
    (folder / "obj.names").unlink()
    with pytest.raises(InvalidData, match=r"a\.txt, line 1.* give their names by names="):
        read_boxes(labels)


def test_splits_of_plain_lists(folder):
    path = write_plain(folder)
    assert [image.stem for image in read_boxes(path, split="train").images] == ["a", "c"]
    assert read_boxes(path, split="test").classes == ["cat"]
    with pytest.raises(InvalidData, match=r"no images of split = 'val', but of .*'test'.*'train'"):
        read_boxes(path, split="val")
    with pytest.raises(InvalidData, match="only plain lists"):
        read_boxes(write_coco(folder), split="train")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("kind", ["voc", "coco", "plain"])
def test_encodings(kind, encoding, folder):
    path = WRITERS[kind](folder)
    for file in [path] if path.is_file() else path.iterdir():
        text = file.read_text().replace("dog", "Bär")
        if kind == "voc":
            text = f"<?xml version='1.0' encoding='{encoding.removesuffix('-sig')}'?>{text}"
        file.write_bytes(text.encode(encoding))
    assert read_boxes(path).classes == ["Bär", "cat"]


def test_names_of_other_systems(folder):
    for name in ("C:\\pictures\\a.ppm", "/home/somebody/a.ppm", "images\\a.ppm", "./a.ppm"):
        (folder / "boxes.json").write_text(json.dumps([{"file": name, "boxes": []}]))
        assert read_boxes(folder).images == [folder / "images" / "a.ppm"]


def test_images_that_are_not_in_their_folder_are_counted(folder):
    content = coco()
    content["images"][0]["file_name"] = "val/a.ppm"
    (folder / "instances.json").write_text(json.dumps(content))
    with pytest.warns(UserWarning, match=r"bare names: 1; the first is val/a\.ppm, taken from"):
        found = read_boxes(folder)
    assert found.images[0] == folder / "images" / "a.ppm"
    (folder / "images" / "val").mkdir()
    write_image(folder / "images" / "val" / "a.ppm", *SIZES["a"])
    assert read_boxes(folder).images[0] == folder / "images" / "val" / "a.ppm"


def test_voc_images_are_found_by_the_name_of_the_annotation(folder):
    path = write_voc(folder)
    for name in SIZES:
        file = path / f"{name}.xml"
        file.write_text(file.read_text().replace(f"<filename>{name}.ppm", "<filename>old.jpg"))
    assert_is(read_boxes(path), folder / "images")


def test_parts_of_what_was_read(folder):
    data = read_boxes(write_plain(folder))
    for which in (slice(0, 2), [0, 1], np.array([0, 1]), np.array([True, True, False]), [-3, -2]):
        part = data[which]
        assert type(part) is type(data)
        assert part.images == data.images[:2]
        assert part.boxes == data.boxes[:2]
        assert part.classes == data.classes
    assert data[2].images == data.images[2:]
    assert len(data[[]]) == 0
    assert [image for image, _ in data] == data.images
    assert repr(data) == "Annotated(images=3, boxes=3, classes=['cat', 'dog'])"
    with pytest.raises(IndexError):
        data[3]
    with pytest.raises(AttributeError):
        data.images = []


# Boxes that do not fit


@pytest.mark.parametrize(
    ("edges", "expected"),
    [((-3, 2, 14, 12), (0, 2, 14, 12)), ((4, 2, 45, 30), (4, 2, 40, 20))],
)
@pytest.mark.parametrize("kind", ["voc", "coco", "plain"])
def test_boxes_are_clipped_with_one_warning(kind, edges, expected, folder):
    boxes = {"a": [("cat", edges, False)] * 2, "b": [("cat", edges, False)], "c": []}
    path = WRITERS[kind](folder, boxes)
    with pytest.warns(UserWarning, match=r"clipped: \d; the first is .*") as caught:
        data = read_boxes(path)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "clipped: 3;" in str(caught[0].message)
    assert data.boxes[0].edges.tolist() == [list(expected)] * 2


def test_yolo_boxes_are_clipped(folder):
    labels = write_yolo(folder)
    (labels / "a.txt").write_text("0 0.1 0.5 0.4 0.5\n")
    with pytest.warns(UserWarning, match=r"a\.txt, line 1: the box \(-4, 5, 12, 15\)"):
        data = read_boxes(labels)
    np.testing.assert_allclose(data.boxes[0].edges, [[0, 5, 12, 15]])


def test_rounding_is_clipped_in_silence(folder):
    boxes = BOXES | {"a": [("cat", (-0.4, 0, 40.4, 20), False)]}
    data = read_boxes(write_plain(folder, boxes))
    assert data.boxes[0].edges.tolist() == [[0, 0, 40, 20]]


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ((50, 2, 60, 12), "outside of the image, which has 40 x 20"),
        ((40, 2, 60, 12), "outside"),
        ((-9, 2, -1, 12), "outside"),
        ((4, 2, 4, 12), "no area"),
        ((14, 2, 4, 12), "right edge left of the left"),
        ((4, 12, 14, 2), "bottom above the top"),
    ],
)
@pytest.mark.parametrize("kind", ["voc", "coco", "plain"])
def test_boxes_that_are_none(kind, edges, message, folder):
    boxes = BOXES | {"a": [BOXES["a"][0], ("cat", edges, False)]}
    path = WRITERS[kind](folder, boxes)
    name = {"voc": r"a\.xml, line 5: box 2 of 2", "coco": r"annotations\[1\]"}.get(
        kind, "box 2 of 2"
    )
    with pytest.raises(InvalidData, match=rf"{name} .*{message}.*on_error='drop'"):
        read_boxes(path)
    with pytest.warns(
        UserWarning, match=rf"left out: 1; the first is .*{name}.*{message}"
    ) as caught:
        data = read_boxes(path, on_error="drop")
    assert len(caught) == 1
    assert_is(data, folder / "images", BOXES | {"a": BOXES["a"][:1]}, with_ignored=kind != "plain")


# What is wrong in files


def test_sizes_must_agree(kind, folder):
    path = WRITERS[kind](folder)
    write_image(folder / "images" / "a.ppm", 20, 40)
    if kind == "yolo":  # which is in fractions
        assert read_boxes(path).boxes[0].edges[0].tolist() == [2, 4, 7, 24]
        return
    with pytest.raises(InvalidData, match=r"40 x 20 pixels, and .* is shown with 20 x 40"):
        read_boxes(path)


def test_images_that_cameras_turned(folder):
    """Their boxes are those of the image as it is shown."""
    image = pytest.importorskip("PIL.Image")
    exif = image.Exif()
    exif[0x0112] = 6
    image.new("RGB", (20, 40)).save(folder / "images" / "turned.png", exif=exif)
    item = {"file": "turned.png", "width": 40, "height": 20, "boxes": [["cat", 30, 2, 39, 12]]}
    path = folder / "boxes.json"
    path.write_text(json.dumps([item]))
    assert read_boxes(path).boxes[0].edges.tolist() == [[30, 2, 39, 12]]
    path.write_text(json.dumps([item | {"width": 20, "height": 40}]))
    with pytest.raises(InvalidData, match="turned by its EXIF orientation"):
        read_boxes(path)
    path.write_text(json.dumps([item | {"width": 0, "height": 0}]))
    with pytest.warns(UserWarning, match=r"no size tells .*: 1; the first is .*turned\.png"):
        assert len(read_boxes(path)) == 1
    path.write_text(json.dumps([{"file": "turned.png", "boxes": []}]))
    assert len(read_boxes(path)) == 1  # without boxes there is nothing to be wrong
    exif[0x0112] = 3
    image.new("RGB", (20, 40)).save(folder / "images" / "turned.png", exif=exif)
    upside_down = item | {"width": 20, "height": 40, "boxes": [["cat", 3, 2, 9, 12]]}
    path.write_text(json.dumps([upside_down]))
    with pytest.warns(UserWarning, match="turned by their EXIF orientation"):
        read_boxes(path)
    (folder / "labels").mkdir()
    (folder / "labels" / "turned.txt").write_text("0 0.5 0.5 0.2 0.2")
    with pytest.warns(UserWarning, match="turned by their EXIF orientation"):
        read_boxes(folder / "labels", names=["cat"])


def test_missing_images(kind, folder):
    path = WRITERS[kind](folder)
    (folder / "images" / "b.ppm").unlink()
    with pytest.raises(InvalidData, match=r"image 'b.*which is not in .*images="):
        read_boxes(path)


def test_images_that_are_none(kind, folder):
    path = WRITERS[kind](folder)
    (folder / "images" / "b.ppm").write_text("text")
    with pytest.raises(InvalidData, match=r"b\.ppm is no image"):
        read_boxes(path)


def test_images_that_are_there_twice(folder):
    path = write_voc(folder)
    (path / "d.xml").write_text(voc_text("a", []))
    with pytest.raises(InvalidData, match=r"d\.xml and .*a\.xml are both about .*a\.ppm"):
        read_boxes(path)
    (folder / "boxes.json").write_text(json.dumps(plain() + plain()))
    with pytest.raises(InvalidData, match=r"\[3\] and .*\[0\] are both about .*a\.ppm"):
        read_boxes(folder / "boxes.json")
    (folder / "images" / "a.pgm").write_bytes(b"P5 1 1 255 0")
    with pytest.raises(InvalidData, match=r"would share the boxes of a\.txt"):
        read_boxes(write_yolo(folder))


def test_unknown_classes(folder):
    for kind in ("voc", "coco", "plain"):
        with pytest.raises(InvalidData, match="class 'dog' is not among names"):
            read_boxes(WRITERS[kind](folder), names=["cat", "unused"])


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (["cat", "cat"], InvalidData, "'cat' twice"),
        ("cat", InvalidType, "list of names"),
        (["cat", 3], InvalidData, r"names\[1\].*name as text"),
    ],
)
def test_names_that_are_none(names, error, message, folder):
    with pytest.raises(error, match=message):
        read_boxes(write_plain(folder), names=names)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</annotation>", "", r"a\.xml, line \d+: this is no XML"),
        ("annotation>", "dataset>", "about <dataset>"),
        ("<xmin>5<", "<xmin>five<", r"line 4: box 1 of 2 has 'five'"),
        ("<xmin>5<", "<xmin>nan<", "'nan', which is no finite number"),
        ("<ymax>12</ymax>", "", "box 1 of 2 has None"),
        ("<name>cat<", "<name> <", "the class is ' '"),
        ("<difficult>0<", "<difficult>2<", "difficult is '2': give 0 or 1"),
        ("<width>40<", "<width>wide<", "the size has 'wide'"),
        ("<annotation>", "<!DOCTYPE a [<!ENTITY b 'c'>]><annotation>", "document type"),
        ("<annotation>", "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><annotation>", "document type"),
        ("<annotation>", "<?xml version='1.0' encoding='none'?><annotation>", "no XML"),
        ("<annotation>", "<?xml version='1.0' encoding='gbk'?><annotation>", "no XML"),
    ],
)
def test_voc_that_is_wrong(old, new, message, folder):
    path = write_voc(folder) / "a.xml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(InvalidData, match=message):
        read_boxes(path, "voc")


def test_deep_xml(folder):
    (folder / "a.xml").write_text("<a>" * 100_000)
    with pytest.raises(InvalidData, match="no XML"):
        read_boxes(folder / "a.xml")
    (folder / "a.xml").write_text("<a>" * 100_000 + "</a>" * 100_000)
    with pytest.raises(InvalidData, match="begins with <annotation>"):
        read_boxes(folder / "a.xml")


@pytest.mark.parametrize(
    ("member", "change", "message"),
    [
        ("annotations", {"bbox": [1, 2, 3]}, r"annotations\[0\]: bbox is \[1, 2, 3\]"),
        ("annotations", {"bbox": [1, 2, float("nan"), 3]}, "no finite number"),
        ("annotations", {"bbox": [1, 2, True, 3]}, "no finite number"),
        ("annotations", {"bbox": [1, 2, 10**400, 3]}, "no finite number"),
        ("annotations", {"bbox": None}, "four numbers"),
        ("annotations", {"image_id": 7}, "'image_id' 7 is unknown"),
        ("annotations", {"image_id": [7]}, r"'image_id' is \[7\]"),
        ("annotations", {"category_id": 7}, "'category_id' 7 is unknown"),
        ("annotations", {"iscrowd": 5}, "iscrowd is 5"),
        ("categories", {"id": 1}, "'id' 1 is there twice"),
        ("categories", {"name": None}, "the class is None"),
        ("images", {"id": 11}, "'id' 11 is there twice"),
        ("images", {"file_name": None}, "names its image None"),
        ("images", {"file_name": "a\0b"}, "which is not in"),
        ("images", {"file_name": "a" * 5000}, "which is not in"),
    ],
)
def test_coco_that_is_wrong(member, change, message, folder):
    content = coco()
    content[member][0] |= change
    (folder / "boxes.json").write_text(json.dumps(content))
    with pytest.raises(InvalidData, match=message):
        read_boxes(folder)


@pytest.mark.parametrize("member", ["images", "annotations", "categories"])
def test_coco_without_its_lists(member, folder):
    for wrong in (None, 3, [3]):
        (folder / "boxes.json").write_text(json.dumps(coco() | {member: wrong}))
        with pytest.raises(InvalidData, match=member):
            read_boxes(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"file": 3}, "names its image 3"),
        ({"boxes": None}, "'boxes' is None"),
        ({"boxes": [["cat", 1, 2, 3]]}, "right, bottom|no finite"),
        ({"boxes": [["cat", 1, 2, 3, "x"]]}, r"\[0\] \(a\.ppm\), box 1 of 1 has 'x'"),
        ({"boxes": [[1, 2, 3, 4, "cat"]]}, "the class is 1: give a name as text, in front"),
        ({"boxes": [5]}, "box 1 of 1 is 5"),
        ({"width": "wide"}, "the size has 'wide'"),
    ],
)
def test_plain_lists_that_are_wrong(change, message, folder):
    content = plain()
    content[0] |= change
    (folder / "boxes.json").write_text(json.dumps(content))
    with pytest.raises(InvalidData, match=message):
        read_boxes(folder)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 0.5 0.5 0.1", "has 4 fields"),
        ("0 0.1 0.1 0.2 0.2 0.3 0.3", "has 7 fields.*polygons"),
        ("2 0.5 0.5 0.1 0.1", "class 2 is unknown: there are 2 names"),
        ("-1 0.5 0.5 0.1 0.1", "class -1 is unknown"),
        ("0.5 0.5 0.5 0.1 0.1", "class 0.5 is unknown"),
        ("cat 0.5 0.5 0.1 0.1", "the class has 'cat'"),
        ("0 nan 0.5 0.1 0.1", "has 'nan'"),
        ("0 20 10 5 5", "not in fractions"),
        ("0 0.5 0.5 0.0 0.1", "has no area"),
    ],
)
def test_yolo_that_is_wrong(line, message, folder):
    path = write_yolo(folder) / "a.txt"
    path.write_text("\n1 0.5 0.5 0.1 0.1\n" + line)
    with pytest.raises(InvalidData, match=rf"a\.txt, line 3: .*{message}"):
        read_boxes(path.parent)


def test_files_that_are_of_no_format(folder):
    for content, message in (
        (b"", "no format"),
        (b"text", "no format"),
        (b"\xff\xfe", "no format"),
        (b"[1, 2", r"line 1: this is no JSON"),
        (b"[\n\n1 2]", r"line 3: this is no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"a": "\xff"}', "no JSON"),
        (b"[3]", r"\[0\] is 3"),
        (b"[]", "no images"),
        (b"{}", "a list is needed"),
    ):
        (folder / "boxes").write_bytes(content)
        with pytest.raises(InvalidData, match=message):
            read_boxes(folder / "boxes")
    with pytest.raises(InvalidData, match="cannot be read"):
        read_boxes(folder / "none.json")
    with pytest.raises(InvalidData, match="holds no files of boxes"):
        read_boxes(folder / "images")
    write_coco(folder)
    write_plain(folder)
    with pytest.raises(InvalidData, match="2 files of JSON"):
        read_boxes(folder)
    write_voc(folder)
    (folder / "Annotations" / "a.txt").write_text("0 0.5 0.5 0.1 0.1")
    with pytest.raises(InvalidData, match="holds voc and yolo files"):
        read_boxes(folder / "Annotations")
    assert len(read_boxes(folder / "Annotations", "voc")) == 3


def test_settings_that_are_wrong(folder):
    path = write_plain(folder)
    for wrong, error in (
        ({"format": "csv"}, InvalidData),
        ({"on_error": "skip"}, InvalidData),
        ({"images": folder / "none"}, InvalidData),
        ({"images": [folder]}, InvalidType),
    ):
        with pytest.raises(error, match=next(iter(wrong))):
            read_boxes(path, **wrong)
    with pytest.raises(InvalidType, match="path = 3"):
        read_boxes(3)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["images", "annotations", "categories", "id", "image_id", "category_id", "bbox"]
                + ["name", "file_name", "file", "boxes", "width", "height", "split", "iscrowd"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
FUZZ = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def assert_harmless(path, *formats):
    for given_format in (None, *formats):
        try:
            read_boxes(path, given_format)
        except InvalidData:
            continue


@FUZZ
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
@pytest.mark.filterwarnings("ignore:boxes that")
def test_any_bytes(content, folder):
    path = folder / "a.txt"
    path.write_bytes(content)
    assert_harmless(path, *WRITERS)


@FUZZ
@given(content=JSON)
@pytest.mark.filterwarnings("ignore:boxes that")
def test_any_json(content, folder):
    path = folder / "boxes.json"
    path.write_text(json.dumps(content))
    assert_harmless(path, "coco", "plain")


@FUZZ
@given(where=st.floats(0.0, 1.0), written=st.binary(max_size=6), kind=st.sampled_from([*WRITERS]))
@pytest.mark.filterwarnings("ignore:boxes that")
def test_damaged_files(kind, where, written, folder):
    files = {
        "voc": ("a.xml", voc_text("a", BOXES["a"])),
        "coco": ("a.json", json.dumps(coco())),
        "yolo": ("a.txt", yolo_text("a", BOXES["a"])),
        "plain": ("a.json", json.dumps(plain())),
    }
    name, text = files[kind]
    place = int(where * len(text))
    path = folder / name
    path.write_bytes(text.encode()[:place] + written + text.encode()[place + len(written) :])
    assert_harmless(path, kind)


# What users give


def test_all_forms_are_one():
    edges = np.array([[4.0, 2.0, 14.0, 12.0], [20.0, 5.0, 40.0, 20.0]])
    whole = Boxes(edges, np.array(["cat", "dog"]), np.array([False, True]))
    given_forms = [
        whole,
        Boxes(edges.tolist(), ["cat", "dog"], [0, 1]),
        edges,
        edges.astype(np.int16),
        edges.tolist(),
        [tuple(row) for row in edges],
        [("cat", *edges[0]), ["dog", *edges[1]]],
        list(edges),
        [],
        np.empty((0, 4)),
        np.array([]),
        Boxes(np.empty((0, 4)), np.array([]), np.array([])),
    ]
    for items in (given_forms, tuple(given_forms), iter(given_forms)):
        found = as_boxes(items, len(given_forms))
        for i, boxes in enumerate(found):
            assert boxes.edges.dtype == np.float64
            assert boxes.classes.dtype.kind == "U"
            assert boxes.ignored.dtype == bool
            assert_array_equal(boxes.edges, edges if i < 8 else np.empty((0, 4)))
            named = ["cat", "dog"] if i in (0, 1, 6) else ["object", "object"]
            assert boxes.classes.tolist() == (named if i < 8 else [])
            assert boxes.ignored.tolist() == ([False, i < 2] if i < 8 else [])


@pytest.mark.parametrize(
    ("given_boxes", "error", "message"),
    [
        ([[]], InvalidData, "there are 2 images, and boxes of 1"),
        ("boxes", InvalidType, "type str"),
        ({0: [], 1: []}, InvalidType, "type dict"),
        (3, InvalidType, "type int"),
        (Boxes(np.ones((2, 4)), ["a"] * 2, [0, 0]), InvalidType, "type Boxes"),
        ([[], None], InvalidType, "image 1: None is no list of boxes"),
        ([(1, 2, 3, 4), (1, 2, 3, 4)], InvalidData, r"image 0, box 0 is 1: give a list of boxes"),
        ([[], [(1, 2, 3)]], InvalidData, r"image 1, box 0 is \(1, 2, 3\)"),
        ([[], np.ones((2, 6))], InvalidData, "image 1, box 0"),
        ([[], np.ones((2, 2, 4))], InvalidData, "image 1, box 0 is"),
        ([[], [(1, 2, 3, 4), (1, 2, np.nan, 4)]], InvalidData, "image 1, box 1 has nan"),
        ([[], [(1, 2, np.inf, 4)]], InvalidData, "has inf"),
        ([[], [(1, 2, 3, True)]], InvalidData, "has True"),
        ([[], [(1, 2, 3, 4j)]], InvalidData, "has 4j"),
        ([[], [(5, 2, 3, 4)]], InvalidData, r"image 1, box 0 \(5, 2, 3, 4\) has its right edge"),
        ([[], [(1, 2, 3, 2)]], InvalidData, "has no area"),
        ([[], [(3, 1, 2, 3, 4)]], InvalidData, "the class is 3"),
        ([[], [("", 1, 2, 3, 4)]], InvalidData, "the class is ''"),
        ([[], Boxes(np.ones((2, 4)), ["a"], [0, 0])], InvalidData, "2 boxes have 1 classes"),
        ([[], Boxes([[1, 2, 3, 4]], [3], [0])], InvalidData, "image 1, box 0: the class is 3"),
        ([[], Boxes([[1, 2, 3, 4]], ["a"], [7])], InvalidData, "ignored is 7"),
        ([[], np.ma.masked_less(np.arange(4.0)[None], 1)], InvalidData, "masked"),
    ],
)
def test_boxes_of_users_that_are_wrong(given_boxes, error, message):
    with pytest.raises(error, match=message):
        as_boxes(given_boxes, 2)


def test_boxes_read_are_boxes_that_users_give(kind, folder):
    data = read_boxes(WRITERS[kind](folder))
    for ours, theirs in zip(as_boxes(data.boxes, len(data)), data.boxes, strict=True):
        for part, other in zip(ours, theirs, strict=True):
            assert_array_equal(part, other)
