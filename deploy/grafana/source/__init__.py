"""Grafana's dashboards as code; `python -m deploy.grafana.source` writes them as JSON."""
