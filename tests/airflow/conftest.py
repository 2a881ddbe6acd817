"""What all tests with a real Airflow share."""

from tests.airflow.airflow_environment import airflow_environment

__all__ = ["airflow_environment"]
