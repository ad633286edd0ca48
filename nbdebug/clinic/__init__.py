"""Clinic: broken notebooks and exercises of the tutorials, judged by running the repair or the answer."""

from nbdebug.clinic.exercises import exercise as exercise
from nbdebug.clinic.judgement import check as check
from nbdebug.clinic.session import hint as hint
from nbdebug.clinic.session import monitor as monitor
from nbdebug.clinic.session import start as start
