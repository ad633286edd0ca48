"""Test of a playground in JupyterLab: a slider trains again, and a guess shows the cause."""

from __future__ import annotations

from tests.lab.lab_page import OpenNotebook


def test_slider_trains_again_and_guess_shows_the_cause(open_notebook: OpenNotebook) -> None:
    source = 'import nbdebug\nplay = nbdebug.play("loss-curves")\nplay'
    with open_notebook(source, "play.settings, play.guess", size=(1200, 1000)) as lab:
        lab.run_cells(0)
        output = lab.output(0)
        slider = output.get_by_label("Example")
        lab.wait_until(slider.is_enabled, 20)
        for _ in range(2):
            slider.press("ArrowRight")
        lab.wait_until(lambda: "Computing" not in output.inner_text(), 30)
        output.get_by_role("button", name="stalled").click()
        output.get_by_text(": the loss ends at").wait_for()
        assert output.locator("canvas").count() == 1
        lab.run_cells(1)
        assert "{'example': 3, 'seed': 0}, 'stalled'" in lab.output(1).inner_text()
