"""The exceptions that the array API suite is run with."""


def test_exceptions_are_the_ids_that_the_page_lists(tool):
    suite = tool("array_api_suite")
    assert suite.exceptions("Prose.\n```\narray_api_tests/a.py::b[c d]\n```\n") == ["array_api_tests/a.py::b[c d]"]
    listed = suite.exceptions(suite.PAGE.read_text(encoding="utf-8"))
    assert listed and len(set(listed)) == len(listed)
    assert all("[__" in test for test in listed), "the page says that only operators are excepted"
