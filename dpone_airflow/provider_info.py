"""What Airflow's provider discovery reads. Import-free: every Airflow process loads it."""


def get_provider_info():  # type: ignore[no-untyped-def]
    """The provider's entries, valid against airflow/provider_info.schema.json; package-name is the distribution."""
    return {
        "package-name": "dpone",
        "name": "dpone",
        "description": "Governed data loads as visible KubernetesPodOperator tasks with verified receipts.",
        "integrations": [{"integration-name": "dpone", "tags": ["software"]}],
        "operators": [
            {
                "integration-name": "dpone",
                "python-modules": [
                    "dpone_airflow.operator",
                    "dpone_airflow.mapped_operator",
                    "dpone_airflow.partitions",
                    "dpone_airflow.gate",
                ],
            }
        ],
        "extra-links": ["dpone_airflow.links.LoadReportLink"],
        "config": {
            "dpone": {
                "description": "Settings of the dpone provider.",
                "options": {
                    "evidence_base_url": {
                        "description": "Base URL under which the evidence directory is published; the load report link "
                        "leads to report.html below it. Empty: no link.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "https://evidence.example/dpone",
                        "default": "",
                    }
                },
            }
        },
    }
