"""Clinic: broken notebooks to repair, judged by nbdebug and by the result of the repaired twin."""

from nbdebug.clinic.judgement import check as check
from nbdebug.clinic.session import hint as hint
from nbdebug.clinic.session import monitor as monitor
from nbdebug.clinic.session import start as start
