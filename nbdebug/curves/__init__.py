"""What can be told of a curve with noise: its level, its trend, its breaks, its rhythm, its shape."""

from nbdebug.curves.course import Course as Course
from nbdebug.curves.course import course_of as course_of
from nbdebug.curves.shape import Shape as Shape
from nbdebug.curves.shape import shape as shape

__all__ = ["Course", "Shape", "course_of", "shape"]
