"""What can be asked of an analysis are arguments of its estimator, and a form asks for nothing else."""

from inspect import signature
from typing import get_args

import pytest

from lintra_analyzer.web.analyses import ANALYSES, Analysis


@pytest.mark.parametrize("analysis", ANALYSES.values(), ids=list(ANALYSES))
def test_options_are_arguments_of_the_estimator_and_a_form_asks_for_options_only(analysis: Analysis) -> None:
    assert get_args(analysis.options.model_fields["kind"].annotation) == (analysis.kind,)
    assert set(analysis.arguments) <= set(signature(analysis.run).parameters)
    assert set(analysis.required) <= set(analysis.form.fields) <= set(analysis.arguments)
