"""What methods inherit: samples become moments, a solution becomes fitted attributes, a choice."""
