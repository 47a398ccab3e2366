"""The exception tree."""

import inspect

import pytest

from wirezip import errors

CLASSES = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if cls.__module__ == errors.__name__]
USUAL = {
    errors.SettingsError: ValueError,
    errors.UnknownCodecError: LookupError,
    errors.CodecUnavailableError: ImportError,
    errors.UnsupportedDtypeError: TypeError,
    errors.InputError: ValueError,
    errors.FrameError: ValueError,
    errors.FileError: OSError,
    errors.CommError: RuntimeError,
    errors.CommTimeoutError: TimeoutError,
}


@pytest.mark.parametrize("cls", CLASSES)
def test_one_root(cls):
    assert issubclass(cls, errors.WirezipError)
    assert cls.__doc__
    assert cls is errors.WirezipError or cls.__name__.endswith("Error")


@pytest.mark.parametrize(("cls", "usual"), USUAL.items())
def test_usual_names_catch_them(cls, usual):
    with pytest.raises(usual, match="what went wrong"):
        raise cls("what went wrong")


@pytest.mark.parametrize("cls", CLASSES)
def test_text_is_kept(cls):
    assert str(cls("some text")) == "some text"
    assert not str(cls("a 'quoted' name")).startswith('"')
