"""What people see of it all: metrics, alerts, dashboard, and the pages about them."""
