import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.sql.Connection;
import javax.naming.InitialContext;
import javax.sql.DataSource;

/** Takes so many milliseconds, with ?db=1 while it holds a connection of the pool; with ?fail=1 it ends with an error. */
@WebServlet("/work")
public class Work extends HttpServlet {
    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        int milliseconds = Integer.parseInt(request.getParameter("ms"));
        try {
            if (request.getParameter("db") != null) {
                DataSource pool = (DataSource) new InitialContext().lookup("java:comp/env/jdbc/shop");
                try (Connection connection = pool.getConnection()) {
                    Thread.sleep(milliseconds);
                }
            } else {
                Thread.sleep(milliseconds);
            }
        } catch (Exception error) {
            throw new IOException(error);
        }
        if (request.getParameter("fail") != null) {
            response.sendError(500);
            return;
        }
        response.setContentType("text/plain");
        response.getWriter().print("done");
    }
}
