"""The findings of M304 on row numbers of each sample that a batch uses for the joined rows of all samples."""

from __future__ import annotations

from nbdebug.finding import Finding
from nbdebug.measurements.sample_company import SampleCompany
from nbdebug.measurements.stacked_indices import StackedIndex
from nbdebug.source.location import get_location, get_related_lines

_CONSEQUENCES = ("T601", "T606", "T607", "T608", "T609", "T610", "E702", "E703", "E706", "E709", "M306", "D105")


def concatenated_index_finding(company: SampleCompany) -> Finding:
    """Report row numbers that a collate function concatenates as they are."""
    return Finding(
        message=f"{company.affected} of {company.samples} samples have different outputs in the batch than they have "
        f"alone. Adding the number of preceding rows to input {company.index_input!r} removes the difference.",
        where=get_location(company.line),
        cause=f"collate_fn concatenates the samples, but input {company.index_input!r} still counts the rows of each "
        "sample from 0, so it refers to rows of the first samples.",
        fix=f"Add the number of the preceding rows to input {company.index_input!r} of each sample before collate_fn "
        "concatenates it.",
        evidence={"samples": company.samples, "affected": company.affected, "input": company.index_input},
        explains=_CONSEQUENCES,
        severity="error",
    )


def stacked_index_finding(index: StackedIndex) -> Finding:
    """Report row numbers that refer to rows of the first sample."""
    offset = " The offset that the model adds is the same for all samples." if index.has_offset else ""
    return Finding(
        message=f"{index.affected} of {index.samples} samples have different outputs in the batch than they have "
        f"alone. Adding the number of preceding rows to input {index.input_name!r} removes the difference.",
        where=get_location(index.line),
        related=get_related_lines(
            (index.used_at, "the offset is added here" if index.has_offset else "the indices are used here")
        ),
        cause=f"The model joins the rows of all samples, but input {index.input_name!r} counts the rows of each sample "
        f"from 0, so it refers to rows of the first sample.{offset}",
        fix=f"offset = {index.rows} * torch.arange(batch_size)   # add it to the indices of each sample",
        evidence={
            "samples": index.samples,
            "affected": index.affected,
            "input": index.input_name,
            "rows": index.rows,
        },
        explains=_CONSEQUENCES,
        severity="error",
    )
