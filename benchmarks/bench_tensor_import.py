"""What `import rushlight` costs, beside `import numpy`."""


class Import:
    def timeraw_numpy(self):
        return "import numpy"

    def timeraw_rushlight(self):
        return "import rushlight"
