// Go's lib/pq over the wire protocol. Arguments: host, port, user, password, database.
package main

import (
	"database/sql"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/lib/pq"
)

func rows(found *sql.Rows, err error) int {
	if err != nil {
		fmt.Println("lib/pq: FAILED", err)
		os.Exit(1)
	}
	defer found.Close()
	count := 0
	for found.Next() {
		count++
	}
	if found.Err() != nil {
		fmt.Println("lib/pq: FAILED", found.Err())
		os.Exit(1)
	}
	return count
}

func main() {
	a := os.Args
	place := fmt.Sprintf("host=%s port=%s user=%s password=%s dbname=%s sslmode=disable options='-c sfumato.epsilon=1'",
		a[1], a[2], a[3], a[4], a[5])
	fmt.Println("Go", runtime.Version(), "with lib/pq")
	db, err := sql.Open("postgres", place)
	if err != nil {
		panic(err)
	}
	defer db.Close()
	byDept := "SELECT dept, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY dept ORDER BY dept"
	fmt.Println("lib/pq:", rows(db.Query(byDept)), "rows")
	fmt.Println("lib/pq, parameters:",
		rows(db.Query("SELECT id FROM staff WHERE id IN ($1,$2) AND seen < $3", 1, 2, time.Now())), "rows")
	fmt.Println("lib/pq, an array:",
		rows(db.Query("SELECT id FROM staff WHERE id = ANY($1)", pq.Array([]int64{1, 2, 3}))), "rows")
	counted, err := db.Prepare("SELECT COUNT(*) AS n FROM visits WHERE age < $1")
	if err != nil {
		fmt.Println("lib/pq, a prepared statement: FAILED", err)
		os.Exit(1)
	}
	fmt.Println("lib/pq, a prepared statement:", rows(counted.Query(50)), "rows")
}
