"""DAG files for a real Airflow; they are copied into its DAGs folder and never imported by a test."""

from pathlib import Path

CASES_FILE = Path(__file__).parent / "operator_cases.py"
